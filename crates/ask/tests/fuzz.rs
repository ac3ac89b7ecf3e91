//! Hostile requests: whatever the line, one line of JSON comes back, soon, and nothing panics.
//!
//! A seeded, structure-aware mutational fuzzer. Seeds are one valid request per operation;
//! mutations change numbers, fields, types, texts and bytes, and a generator writes layouts whose
//! shapes fit, so that requests reach the algebra and not only the parser. `ZELLIGE_FUZZ_SECONDS`
//! sets how long it runs (8 where it is not given), `ZELLIGE_FUZZ_SEED` where it starts.

use peak_alloc::PeakAlloc;
use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zellige_ask::{OPERATIONS, answer_line};
use zellige_layout::AxisTable;
use zellige_notation::{Notation, ParsedText, json as layout_json, parse, parse_as, preset};

/// An answer may take this long. Unoptimised builds are given more.
const SECONDS: u64 = if cfg!(debug_assertions) { 10 } else { 2 };
/// Bytes of an answer, and of all memory in use while it is made.
const ANSWER_BYTES: usize = 64 << 20;
const MEMORY_BYTES: usize = 1 << 30;

/// The system allocator, counting what is in use.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One valid request per operation, several where the operation has several forms.
const SEEDS: &[&str] = &[
    r#"{"id":1,"op":"parse","layout":"S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid"}"#,
    r#"{"id":1,"op":"parse","layout":"S[(2,4):(1@lx,2@lx)]","axes":{"lx":"memory","core":"device","lane2":["thread","warp"]}}"#,
    r#"{"id":1,"op":"parse","layout":{"kind":"compose","per_element":3,"swizzle_len":3,"atom_len":3,"swizzle_inner":true,"tile":{"kind":"tile","shard":[[8,64,"m"],[64,1]],"replica":[],"offset":{"m":0}},"valid":[[0,7,8],[1,60,64]]}}"#,
    r#"{"id":1,"op":"parse","layout":"size=[4, 6] stride=[6, 1] offset=2","as":"tirx"}"#,
    r#"{"id":1,"op":"parse","layout":"SpyreTensorLayout(device_size=[3, 5, 64], stride_map =[64, 150, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 150])"}"#,
    r#"{"id":92,"op":"host_facts","size":[2,3,4,5],"stride":[60,1,15,3],"offset":2}"#,
    r#"{"id":93,"op":"spyre_dtype","device_size":[2,4,32],"stride_map":[32,32,1],"dtype":"float32","to_dtype":"float16"}"#,
    r#"{"id":90,"op":"dma","size":[40,240],"stride":[240,1],"offset":0,"tensor_stride":[240,1],"dtype":"float16","device_size":[4,40,64],"stride_map":[64,240,1],"direction":"d2h"}"#,
    r#"{"id":91,"op":"move","src":"S[(4,6):(6,1)]","dst":"S[(4,8):(1,4)] valid[4,6/8]","shape":[4,6],"dtype":"float32","fill":"zero"}"#,
    r#"{"id":120,"op":"move","src":"S[(4,6):(6,1)]","dst":"S[(4,8):(1,4)] valid[4,6/8]","shape":[4,6],"dtype":"float32","to_dtype":"float16","fill":"max"}"#,
    r#"{"id":121,"op":"move","src":"S[(4,6):(6,1)]","dst":"S[(4,8):(8,1)] valid[4,6/8]","shape":[4,6],"dtype":"int64","to_dtype":"int8","fill":-7.0}"#,
    r#"{"id":2,"op":"apply","layout":"Swizzle(3,3,3) o S[(8,64):(64,1)]","shape":[8,64],"coords":[[1,2],[7,63]]}"#,
    r#"{"id":3,"op":"canonicalize","layout":"S[(2,4,8):(32,8,1)] + R[(2,2):(2@warpid,1@warpid)]","target":"cuda"}"#,
    r#"{"id":4,"op":"coalesce","layout":"S[(2,4,8):(32,8,1)]"}"#,
    r#"{"id":5,"op":"group","layout":"S[(8,64):(64,1)]","shape":[4,2,64]}"#,
    r#"{"id":6,"op":"group_many","layout":"S[64:1]","shapes":[[8,8],[16,4],[2,32]]}"#,
    r#"{"id":7,"op":"tile","inner":"S[(8,8):(8,1)]","outer":"S[(2,4):(4,1)]","outer_shape":[2,4],"inner_shape":[8,8]}"#,
    r#"{"id":8,"op":"is_tile_inner","layout":"S[(8,8):(8,1)]","tiled":"S[(2,8,4,8):(256,8,64,1)]","tiled_shape":[16,32],"inner_shape":[8,8]}"#,
    r#"{"id":9,"op":"is_tile_outer","layout":"S[(2,4):(4,1)] + 1","tiled":"S[(2,8,4,8):(256,8,64,1)] + 64","tiled_shape":[16,32],"outer_shape":[2,4]}"#,
    r#"{"id":10,"op":"direct_sum","right":"S[(8,8):(8,1)]","left":"S[(2,4):(256,64)]","left_shape":[2,4],"right_shape":[8,8]}"#,
    r#"{"id":11,"op":"is_direct_sum_right","layout":"S[(8,8):(8,1)]","sum":"S[(2,8,4,8):(256,8,64,1)]","shape":[2,8,4,8],"other_shape":[8,8]}"#,
    r#"{"id":12,"op":"is_direct_sum_left","layout":"S[(2,4):(256,64)]","sum":"S[(2,8,4,8):(256,8,64,1)]","shape":[2,8,4,8]}"#,
    r#"{"id":13,"op":"slice","layout":"Swizzle(3,3,3) o S[(8,64):(64,1)]","shape":[8,64],"region":[[2,6],[0,32]]}"#,
    r#"{"id":14,"op":"permute_dims","layout":"S[(8,64):(64,1)]","perm":[1,0]}"#,
    r#"{"id":15,"op":"permute_by_groups","layout":"S[(2,4,8):(32,8,1)]","seps":[0,1,3],"perm":[1,0]}"#,
    r#"{"id":16,"op":"storage","layout":"S[(8,4):(1@laneid,1)]"}"#,
    r#"{"id":17,"op":"pack","layout":"Swizzle(3,3,3) o S[(8,64):(64,1)]","num":8}"#,
    r#"{"id":18,"op":"unpack","layout":"Swizzle(0,3,3) o S[(8,8):(8,1)]","num":8}"#,
    r#"{"id":19,"op":"broadcast","layout":"S[(8,64):(64,1)]","num":4,"pos":1,"axis":"laneid"}"#,
    r#"{"id":20,"op":"tile_to","layout":"S[(8,8):(8,1)]","to_shape":[16,32],"shape":[8,8]}"#,
    r#"{"id":21,"op":"compose","a":"S[(8,64):(1@laneid,1)]","b":"S[(64,8):(1,64)]"}"#,
    r#"{"id":21,"op":"compose","a":"S[(6,10):(10@laneid,1)]","b":"S[(3,5):(20,2)] + R[2:10] + 1"}"#,
    r#"{"id":22,"op":"inverse","layout":"S[(8,64):(1,8)]"}"#,
    r#"{"id":23,"op":"right_inverse","layout":"S[(8,64):(1,8)]"}"#,
    r#"{"id":24,"op":"left_inverse","layout":"S[(8,4):(1@laneid,3)] + 5"}"#,
    r#"{"id":25,"op":"complement","layout":"S[(4,2):(2,16)]","cosize":64}"#,
    r#"{"id":130,"op":"composition","notation":"cute","a":"(8,2,4):(0,8,16)","b":"(12,4):(12,1)"}"#,
    r#"{"id":131,"op":"logical_divide","notation":"cute","a":"(9,(4,8)):(59,(13,1))","tiler":["3:3","(2,4):(1,8)"]}"#,
    r#"{"id":132,"op":"zipped_divide","notation":"cute","a":"(8,8):(1,8)","tiler":["2:1","4:1"]}"#,
    r#"{"id":133,"op":"tiled_divide","notation":"cute","a":"(6,6):(1,6)","tiler":["2:3","3:2"]}"#,
    r#"{"id":134,"op":"flat_divide","notation":"cute","a":"(6,12):(12,1)","b":"2:1"}"#,
    r#"{"id":135,"op":"logical_product","notation":"cute","a":"(2,2):(4,1)","b":"(4,2):(2,1)"}"#,
    r#"{"id":136,"op":"zipped_product","notation":"cute","a":"(2,6):(1,2)","b":"4:2"}"#,
    r#"{"id":137,"op":"tiled_product","notation":"cute","a":"3:1","b":"(3,3):(1,3)"}"#,
    r#"{"id":138,"op":"flat_product","notation":"cute","a":"(2,2):(2,1)","b":"(4,2):(1,4)"}"#,
    r#"{"id":139,"op":"blocked_product","notation":"cute","a":"(_3,_6):(_1,_3)","b":"(_2,_4):(_1,_2)"}"#,
    r#"{"id":140,"op":"raked_product","notation":"cute","a":"(6,4):(1,6)","b":"(2,2):(1,2)"}"#,
    r#"{"id":141,"op":"coalesce","notation":"cute","layout":"(2,(1,6)):(1,(6,2))"}"#,
    r#"{"id":142,"op":"complement","notation":"cute","layout":"(3,3,2):(2,12,0)","cosize":116}"#,
    r#"{"id":143,"op":"right_inverse","notation":"cute","layout":"(4,8,6):(1,24,4)"}"#,
    r#"{"id":144,"op":"left_inverse","notation":"cute","layout":"(2,2):(5,1)"}"#,
    r#"{"id":145,"op":"compose","notation":"cute","a":"Sw<3,3,3> o 0 o (8,64):(64,1)","b":"(16,32):(1,16)"}"#,
    r#"{"id":146,"op":"parse","layout":"Sw<3,4,3> o smem_ptr[16b](unset) o ((_64,_2),(_8,_8)):((_1,_512),(_64,_1024))"}"#,
    r#"{"id":147,"op":"apply","layout":"(8,_4):(_1@0,_1@1)","coords":[[1,2],[7,3]]}"#,
    r#"{"id":148,"op":"convert","layout":"S[(64,4,64):(64,4096,1)]","shape":[64,256],"to":"cute"}"#,
    r#"{"id":149,"op":"presets","name":"SM90_64x96x16_F32BF16BF16_RS<SM90::GMMA::Major::K,SM90::GMMA::Major::K>"}"#,
    r#"{"id":26,"op":"equal","a":"S[(8,64):(64,1)]","b":"Swizzle(3,3,6) o S[512:1]","shape":[8,64]}"#,
    r#"{"id":26,"op":"equal","a":"S[8:1] + R[(2,2):(1,2)]","b":"S[8:1] + R[4:1] valid[2..7/8]"}"#,
    r#"{"id":27,"op":"refine","layouts":["S[(8,64):(64,1)]","S[(4,128):(128,1)]"],"shape":[16,32]}"#,
    r##"{"id":201,"op":"linear","call":"of","layout":"#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0], CGALayout = [[1, 0]]}>","shape":[64,64]}"##,
    r##"{"id":202,"op":"linear","call":"of","layout":"#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 2}>","shape":[64,64]}"##,
    r##"{"id":203,"op":"apply","layout":"#ttg.slice<{dim = 0, parent = #ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>}>","shape":[128],"coords":[[3]]}"##,
    r##"{"id":204,"op":"convert","layout":"tensor<8x64xf16, #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>>","shape":[8,64],"to":"tirx"}"##,
    r##"{"id":205,"op":"convert","layout":"#ttg.padded_shared<[32:+4] {order = [1, 0], shape = [16, 32]}>","shape":[16,32],"to":"torch"}"##,
    r##"{"id":206,"op":"parse","layout":"#a = #ttg.linear<{register = [[0, 1]], lane = [[0, 2], [1, 0]], warp = [[2, 0]], block = []}>\ntensor<4x4xf16, #a>"}"##,
    r#"{"id":207,"op":"linear","call":"facts","a":{"in":[["register",[[0,1],[8,0]]],["lane",[[0,2],[0,4],[1,0]]]],"out":[["dim0",16],["dim1",8]]}}"#,
    r#"{"id":208,"op":"linear","call":"apply","a":"{register: [[0, 1]], lane: [[0, 2], [1, 0]]}","points":[{"register":1,"lane":3},[0,2]]}"#,
    r#"{"id":209,"op":"linear","call":"invertAndCompose","a":{"in":[["lane",[[1],[2]]]],"out":[["x",4]]},"b":{"in":[["offset",[[3],[1],[0]]]],"out":[["x",4]]}}"#,
    r#"{"id":210,"op":"linear","call":"reshapeOuts","a":{"in":[["lane",[[1],[2]]]],"out":[["x",4]]},"dims":[["y",2],["z",2]]}"#,
    r#"{"id":211,"op":"linear","call":"ensureLayoutNotSmallerThan","a":{"in":[["lane",[[1],[2]]]],"out":[["x",4]]},"shape":{"x":16}}"#,
    r#"{"id":212,"op":"linear","call":"optimalSwizzling","a":{"in":[["register",[[1],[2]]],["lane",[[4],[8]]]],"out":[["x",16]]},"b":{"in":[["register",[[4],[8]]],["lane",[[1],[2]]]],"out":[["x",16]]},"bitwidth":16}"#,
    r#"{"id":213,"op":"facts","layout":{"in":[["register",[[0,1]]],["lane",[[0,2],[1,0]]],["warp",[[0,0]]]],"out":[["dim0",2],["dim1",4]]}}"#,
    r#"{"id":28,"op":"lookup","layout":"S[(8,64):(64,1)] + R[2:8] valid[7/8,60/64]","shape":[7,60],"place":{"m":66}}"#,
    r#"{"id":29,"op":"facts","layout":"Swizzle(3,3,3) o S[(8,60):(64,1)] valid[5/8,0..50/60]"}"#,
    r#"{"id":29,"op":"facts","layout":"S[(6,10,15):(15,6,10)] + R[2:0]"}"#,
    r#"{"id":30,"op":"span","layout":"S[(8,4):(1@laneid,1)]","axis":"laneid"}"#,
    r#"{"id":31,"op":"scope","layout":"S[(8,4):(1@laneid,1@warpid)]"}"#,
    r#"{"id":32,"op":"analyze","layout":"S[(64,64):(64,1)]","shape":[64,64],"dtype":"float16","access":{"kind":"row","index":3,"vector":8}}"#,
    r#"{"id":33,"op":"conflicts","layout":"S[(64,64):(64,1)]","shape":[64,64],"dtype":"float16","access":{"kind":"column","index":0},"vector":1}"#,
    r#"{"id":33,"op":"conflicts","layout":"S[(64,64):(64,1)]","shape":[64,64],"dtype":"int8","access":[[0,0],[1,0],[2,1]]}"#,
    r#"{"id":33,"op":"conflicts","layout":"S[(64,64):(64,1)]","shape":[64,64],"dtype":"float16","access":{"kind":"ldmatrix","row":8,"column":8}}"#,
    r#"{"id":33,"op":"conflicts","layout":"S[(64,64):(64,1)]","shape":[64,64],"dtype":"float16","access":{"kind":"lanes","coords":[[0,0],[1,0]]}}"#,
    r#"{"id":34,"op":"swizzle_for","layout":"S[(8,64):(64,1)]","shape":[8,64],"dtype":"float16","accesses":[{"kind":"column","index":0,"vector":8},{"kind":"row","index":0}]}"#,
    r#"{"id":35,"op":"explain","layout":"Swizzle(3,3,3) o S[(8,64):(64,1)]","shape":[8,64],"dtype":"float16"}"#,
    r#"{"id":36,"op":"physical_order","layout":"Swizzle(1,1,2) o S[(4,6):(6,1)] valid[3/4,5/6]","dtype":"float16"}"#,
    r#"{"id":37,"op":"convert","layout":"S[(3,5,64):(320,64,1)]","shape":[3,5,64],"dtype":"float16","to":"spyre"}"#,
    r#"{"id":37,"op":"convert","layout":"S[(3,5,64):(320,64,1)] + 7","shape":[15,64],"to":"torch"}"#,
    r#"{"id":150,"op":"notations"}"#,
    r#"{"id":205,"op":"scale_factors","rows":128,"groups":16,"bits":8,"sf_per_mma":4,"reuse":2,"pipe_depth":3}"#,
    r#"{"id":38,"op":"presets","name":"wgmma-64x128"}"#,
    r#"{"id":60,"op":"conversions","layout":"S[(4,6):(1,4)]","shape":[4,6],"dtype":"float16"}"#,
    r##"{"id":60,"op":"conversions","layout":"#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>","shape":[1024],"to":"linear"}"##,
    r##"{"id":73,"op":"layouts","text":"#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>\n%0 = tt.load %1 : tensor<512xf32, #b>\n%2 = foo : tensor<64xf16, #c> -> !ttg.memdesc<2x64xf16, #b, #smem>"}"##,
    r#"{"id":74,"op":"layouts","text":"MMA_Atom\n  ThrID:      _32:_1\n  Shape_MNK:  (_16,_8,_8)\n  LayoutA_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))\n  LayoutB_TV: ((_4,_8),_2):((_16,_1),_8)\n  LayoutC_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))"}"#,
    r#"{"id":61,"op":"linear","call":"apply","a":{"in":[["register",[[0,1]]],["lane",[[1,0]]]],"out":[["dim0",2],["dim1",2]]},"points":[{"register":1,"lane":1}]}"#,
    r#"{"id":62,"op":"composition","notation":"cute","a":"(8,2,4):(0,8,16)","b":"(12,4):(12,1)"}"#,
    r#"{"id":63,"op":"logical_divide","notation":"cute","a":"(9,(4,8)):(59,(13,1))","tiler":["3:3","(2,4):(1,8)"]}"#,
    r#"{"id":64,"op":"zipped_divide","notation":"cute","a":"(8,8):(1,8)","tiler":["2:1","4:1"]}"#,
    r#"{"id":65,"op":"tiled_divide","notation":"cute","a":"(6,6):(1,6)","tiler":["2:3","3:2"]}"#,
    r#"{"id":66,"op":"flat_divide","notation":"cute","a":"(6,12):(12,1)","b":"2:1"}"#,
    r#"{"id":67,"op":"logical_product","notation":"cute","a":"(2,2):(4,1)","b":"(4,2):(2,1)"}"#,
    r#"{"id":68,"op":"zipped_product","notation":"cute","a":"(2,6):(1,2)","b":"4:2"}"#,
    r#"{"id":69,"op":"tiled_product","notation":"cute","a":"3:1","b":"(3,3):(1,3)"}"#,
    r#"{"id":70,"op":"flat_product","notation":"cute","a":"(2,2):(2,1)","b":"(4,2):(1,4)"}"#,
    r#"{"id":71,"op":"blocked_product","notation":"cute","a":"(_3,_6):(_1,_3)","b":"(_2,_4):(_1,_2)"}"#,
    r#"{"id":72,"op":"raked_product","notation":"cute","a":"(6,4):(1,6)","b":"(2,2):(1,2)"}"#,
    r#"{"id":56,"op":"lanes","layout":"Swizzle(3,3,3) o S[(8,64):(64,1)]","dtype":"float16","access":{"kind":"column","index":3},"vector":2}"#,
    r#"{"id":57,"op":"differences","a":"S[(8,64):(64,1)]","b":"Swizzle(3,3,3) o S[(8,64):(64,1)]","shape":[8,64],"count":7}"#,
    r#"{"id":50,"op":"sheets","layout":"S[(5,2,64):(64,320,1)] valid[5,100/128]","dtype":"float16","sticks":true}"#,
    r#"{"id":50,"op":"sheets","layout":"S[(2,2,2,2):(1@pid,2,2@pid,1)]","shape":[4,4],"dtype":"float32","color_by":"m"}"#,
    r#"{"id":51,"op":"cells","layout":"Swizzle(3,3,3) o S[(8,64):(64,1)]","dtype":"float16","side":"physical","box":0,"rows":[0,8],"cols":[8,24]}"#,
    r#"{"id":52,"op":"inspect","layout":"S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid","shape":[8,16],"coord":[7,15]}"#,
    r#"{"id":52,"op":"inspect","layout":"S[(8,64):(64,1)]","dtype":"float16","side":"physical","row":2,"col":3}"#,
    r#"{"id":53,"op":"draw","layout":"S[(8,8):(8,1)]","dtype":"float16","title":"eight","max_cells":64}"#,
    r#"{"id":54,"op":"swizzle","layout":"S[(8,64):(64,1)]","dtype":"float16","mode":"128B"}"#,
    r#"{"id":56,"op":"reshard","shape":[9,16],"dtype":"float16","mesh":"dp=2, tp=4","from":"P('tp', None)","to":"(Shard(1), Replicate())","bandwidth":1e9}"#,
    r#"{"id":57,"op":"reshard","shape":[3,5,7],"dtype":"int8","mesh":"x=3","from":"flat","to_mesh":"x=2, y=2","to":"whole at y=1"}"#,
    r#"{"id":55,"op":"copies","src":"S[(4,6):(6,1)]","dst":"S[(4,8):(1,4)] valid[4,6/8]","shape":[4,6],"dtype":"float32","first":3,"count":9}"#,
    r#"{"id":39,"op":"view","size":[4,6],"stride":[6,1],"offset":2,"call":"transpose","args":[0,1]}"#,
    r#"{"id":39,"op":"view","size":[4,6],"call":"permute","args":[[1,0]]}"#,
    r#"{"id":39,"op":"view","size":[4,6],"call":"slice","dim":1,"start":1,"end":-1,"step":2}"#,
    r#"{"id":39,"op":"view","size":[4,6],"call":"select","args":[0,3]}"#,
    r#"{"id":39,"op":"view","size":[4,1],"call":"expand","args":[4,6]}"#,
    r#"{"id":39,"op":"view","size":[4,1],"call":"squeeze","args":[1]}"#,
    r#"{"id":39,"op":"view","size":[4,6],"call":"unsqueeze","args":[-1]}"#,
    r#"{"id":39,"op":"view","size":[4,6],"call":"unfold","args":[1,3,2]}"#,
    r#"{"id":39,"op":"view","size":[4,6],"call":"flip","args":[[0,1]]}"#,
    r#"{"id":39,"op":"view","size":[4,6],"call":"view","args":[2,2,-1]}"#,
    r#"{"id":39,"op":"view","size":[4,6],"stride":[1,4],"call":"reshape","args":[[24]]}"#,
    r#"{"id":40,"op":"spyre_layout","size":[5,100,150],"stride":[15000,150,1],"dtype":"float16","dim_order":[1,0,2]}"#,
    r#"{"id":40,"op":"spyre_layout","size":[5,100,150],"dtype":"float16"}"#,
    r#"{"id":41,"op":"spyre_dim_map","size":[5,150],"device_size":[3,5,64],"stride_map":[64,150,1]}"#,
    r#"{"id":41,"op":"spyre_dim_map","size":[5,150],"device_size":[3,5,64],"dim_map":[1,0,1],"dtype":"float16"}"#,
    r#"{"id":43,"op":"work_division","kind":"pointwise","sizes":[256,128,512],"dtype":"float32","cores":32,"policy":"baseline","hint":{"c0":4}}"#,
    r#"{"id":43,"op":"work_division","kind":"reduction","sizes":[37,5,512],"reduced":[0,2],"dtype":"float16","cores":31,"policy":"best"}"#,
    r#"{"id":43,"op":"work_division","kind":"matmul","sizes":{"M":512,"N":4096,"K":4096},"dtype":"float16","cores":32,"policy":"best"}"#,
    r#"{"id":43,"op":"work_division","kind":"bmm","sizes":{"B":3,"M":128,"N":64,"K":128},"dtype":"float16","cores":32,"policy":"baseline","hint":{"M":2,"B":3}}"#,
    r#"{"id":44,"op":"lx_plan","limit":100,"alignment":1,"buffers":[{"name":"P","size":60,"uses":[0,4],"in_place_parents":[],"first_use_is_read":false},{"name":"C","size":15,"uses":[4,8],"in_place_parents":["P"],"first_use_is_read":false},{"name":"x","size":50,"uses":[1,2,6]}],"policy":"exact"}"#,
    r#"{"id":44,"op":"lx_plan","limit":513,"alignment":128,"buffers":[{"name":"a","size":512,"uses":[0,3]},{"name":"b","size":200,"uses":[3],"in_place_parents":["a"]}],"policy":"greedy"}"#,
    r#"{"id":45,"op":"compile","graph":"graph g(x: float16[64, 128], w: float16[32, 128] @weight) { h = linear(x, w) y = softmax(h, dim=-1) return y }","options":{"policy":"best","coverage":"card","cores":4,"bind":{},"compare":true}}"#,
    r#"{"id":45,"op":"compile","graph":{"name":"g","inputs":[{"name":"x","dtype":"float16","size":[5,70]}],"ops":[{"op":"transpose","inputs":["x"],"outputs":["t"],"attributes":{"dim0":0,"dim1":1}},{"op":"add","inputs":["t",1.5],"outputs":["y"]}],"outputs":["y"]},"explain":"y"}"#,
    r#"{"id":42,"op":"restickify_layout","size":[5,150],"dtype":"float16","device_size":[3,5,64],"stride_map":[64,150,1],"to_dim":0}"#,
];

/// xorshift64*: enough to choose with, and the same everywhere.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % n.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Numbers where arithmetic goes wrong, as they are written.
const EXTREMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "7",
    "31",
    "32",
    "33",
    "64",
    "100",
    "127",
    "128",
    "255",
    "4096",
    "65536",
    "1048576",
    "4194304",
    "4194305",
    "16777216",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "1099511627776",
    "4503599627370497",
    "2305843009213693951",
    "4611686018427387903",
    "4611686018427387904",
    "-4611686018427387904",
    "6074001000",
    "9223372036854775806",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e400",
    "1e300",
    "1.5",
    "-0",
    "-0.0",
];

const FRAGMENTS: &[&str] = &[
    "S[",
    "R[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "@",
    "m",
    "laneid",
    "pid",
    "tid",
    "reg",
    " + ",
    " - ",
    "-",
    "valid[",
    "..",
    "/",
    "Swizzle(",
    " o ",
    "∘",
    "inner",
    "outer",
    "size=",
    "stride=",
    "offset=",
    "host_size=[",
    "element_arrangement=QFP8WT",
    "element_arrangement=DL16_TO_FP32",
    "S[]",
    "R[1:0]",
    "\u{0}",
    "\n",
    "\t",
    "\u{7f}",
    "\u{202e}",
    "é",
    "\u{1f4a9}",
    "\u{feff}",
    "\\",
    "\"",
    "{",
    "}",
    "[",
    "null",
    "\u{a0}",
    "٣",
    "+5@warpid",
    " valid[1/1]",
    "S[0:0]",
    "R[1048576:0]",
    "S[2:0]",
];

fn extreme(rng: &mut Rng) -> &'static str {
    rng.pick(EXTREMES)
}

/// An integer that a well-formed layout may well have.
fn plausible(rng: &mut Rng) -> i64 {
    if rng.one_in(6) {
        return rng.pick(EXTREMES).parse().unwrap_or(1);
    }
    let small = i64::try_from(rng.below(17)).unwrap_or(0);
    if rng.one_in(3) { 1 << (rng.below(44)) } else { small }
}

/// A layout whose extents multiply to something that fits, and its extents.
fn layout_text(rng: &mut Rng) -> (String, Vec<i64>) {
    let axes = ["", "", "", "@laneid", "@warpid", "@pid", "@TCol"];
    let iters = |rng: &mut Rng, most: usize, low: i64| {
        let (mut extents, mut strides, mut total) = (Vec::new(), Vec::new(), 1i64);
        for _ in 0..rng.below(most + 1) {
            let e = plausible(rng).max(low);
            let Some(t) = total.checked_mul(e.max(1)) else { continue };
            total = t;
            extents.push(e);
            let s = match rng.below(4) {
                0 => total / e.max(1),
                1 => -plausible(rng).saturating_abs(),
                _ => plausible(rng),
            };
            strides.push(format!("{s}{}", rng.pick(&axes)));
        }
        (extents, strides)
    };
    let text = |letter: char, extents: &[i64], strides: &[String]| {
        let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
        format!("{letter}[({}):({})]", extents.join(","), strides.join(","))
    };
    let low = i64::from(!rng.one_in(8));
    let (mut shape, strides) = iters(rng, 5, low);
    let mut out = text('S', &shape, &strides);
    if rng.one_in(3) {
        let (extents, strides) = iters(rng, 2, 1);
        out = format!("{out} + {}", text('R', &extents, &strides));
    }
    if rng.one_in(3) {
        out = format!("{out} + {}{}", plausible(rng), rng.pick(&axes));
    }
    if rng.one_in(4) {
        let (b, s) = (rng.below(6), rng.below(30));
        let outer = if rng.one_in(4) { ",outer" } else { "" };
        out = format!("Swizzle({},{b},{}{outer}) o {out}", rng.below(12), b + s);
    }
    if rng.one_in(4) && !shape.is_empty() {
        let dims: Vec<String> = shape
            .iter_mut()
            .map(|e| {
                let padded = *e;
                let begin = (plausible(rng).saturating_abs()).min(padded);
                let end = begin.saturating_add(plausible(rng).saturating_abs()).min(padded);
                *e = end - begin;
                format!("{begin}..{end}/{padded}")
            })
            .collect();
        out = format!("{out} valid[{}]", dims.join(","));
    }
    (out, shape)
}

/// Iters of one small extent each, in an order of memory that is none of their own: what notations of tiles and blocks take
/// many of.
fn scattered_text(rng: &mut Rng) -> (String, Vec<i64>) {
    let extents: Vec<i64> = (0..1 + rng.below(40)).map(|_| rng.pick(&[2, 2, 2, 3])).collect();
    let mut order: Vec<usize> = (0..extents.len()).collect();
    if rng.one_in(2) {
        order.reverse();
    } else {
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
    }
    let (mut strides, mut next) = (vec![0i64; extents.len()], 1i64);
    let axis = rng.pick(&["", "", "@pid"]);
    for k in order.into_iter().rev() {
        strides[k] = next;
        next = next.saturating_mul(extents[k]);
    }
    let list =
        |v: &[i64], end: &str| v.iter().map(|x| format!("{x}{end}")).collect::<Vec<_>>().join(",");
    (format!("S[({}):({})]", list(&extents, ""), list(&strides, axis)), extents)
}

/// The same number of elements in another shape.
fn reshaped(rng: &mut Rng, shape: &[i64]) -> Vec<i64> {
    let total = shape.iter().try_fold(1i64, |t, e| t.checked_mul(*e));
    match (rng.below(4), total) {
        (0, Some(t)) => vec![t],
        (1, Some(t)) => {
            let d = [2, 3, 8, 32, 64, 1 << 20].into_iter().find(|d| t % d == 0).unwrap_or(1);
            if rng.one_in(2) { vec![t / d, d] } else { vec![d, t / d] }
        }
        _ => shape.to_vec(),
    }
}

/// A seed with layouts and shapes that fit each other.
fn generate(rng: &mut Rng) -> Value {
    let mut request: Value = serde_json::from_str(rng.pick(SEEDS)).expect("seeds are JSON");
    let object = request.as_object_mut().expect("seeds are objects");
    let (text, shape) = if rng.one_in(6) { scattered_text(rng) } else { layout_text(rng) };
    let notations: Vec<Notation> = Notation::all_notations().collect();
    let keys: Vec<String> = object.keys().cloned().collect();
    for key in keys {
        let own = shape.clone();
        let value =
            match key.as_str() {
                "layout" => json!(text),
                "to" if object.get("op").is_some_and(|op| op != "reshard") => {
                    json!(rng.pick(&notations).name())
                }
                "a" | "b" | "inner" | "outer" | "tiled" | "sum" | "left" | "right" => {
                    if rng.one_in(2) { json!(layout_text(rng).0) } else { json!(text) }
                }
                "layouts" => json!([text, text]),
                "shape" => json!(reshaped(rng, &own)),
                "shapes" => json!([reshaped(rng, &own), own]),
                "tiled_shape" | "outer_shape" | "inner_shape" | "to_shape" | "left_shape"
                | "right_shape" => {
                    if rng.one_in(2) {
                        continue;
                    } else {
                        json!(reshaped(rng, &own))
                    }
                }
                "region" => json!(
                    own.iter()
                        .map(|e| {
                            let b = plausible(rng).saturating_abs().min(*e);
                            let end = b.saturating_add(plausible(rng).saturating_abs()).min(*e);
                            [b, end]
                        })
                        .collect::<Vec<_>>()
                ),
                "coords" => {
                    let c: Vec<i64> = own.iter().map(|e| plausible(rng).min(e - 1)).collect();
                    json!([c])
                }
                "perm" => json!((0..own.len()).rev().collect::<Vec<_>>()),
                "num" | "cosize" => json!(plausible(rng)),
                "place" => json!({"m": plausible(rng)}),
                "size" | "device_size" | "stride" | "stride_map" => {
                    let list = value_list(&object[&key]);
                    json!(
                        list.iter()
                            .map(|v| if rng.one_in(3) { plausible(rng) } else { *v })
                            .collect::<Vec<_>>()
                    )
                }
                _ => continue,
            };
        object.insert(key, value);
    }
    request
}

fn value_list(v: &Value) -> Vec<i64> {
    v.as_array().map(|l| l.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
}

fn count(v: &Value) -> usize {
    1 + match v {
        Value::Array(list) => list.iter().take(64).map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Runs `f` on the node with that number, depth first.
fn visit(v: &mut Value, at: &mut usize, f: &mut dyn FnMut(&mut Value)) {
    if *at == 0 {
        f(v);
        *at = usize::MAX;
        return;
    }
    *at -= 1;
    let children: Vec<&mut Value> = match v {
        Value::Array(list) => list.iter_mut().take(64).collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => return,
    };
    for child in children {
        visit(child, at, f);
        if *at == usize::MAX {
            return;
        }
    }
}

fn number(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

fn mutate(request: &mut Value, rng: &mut Rng, texts: &[String]) {
    let mut at = rng.below(count(request));
    visit(request, &mut at, &mut |node| match node {
        _ if rng.one_in(12) => {
            *node = match rng.below(8) {
                0 => Value::Null,
                1 => json!(true),
                2 => json!(texts[rng.below(texts.len())]),
                3 => json!([]),
                4 => json!({}),
                5 => json!(1.5),
                6 => json!([[extreme(rng)]]),
                _ => number(extreme(rng)),
            };
        }
        Value::Number(_) => *node = number(extreme(rng)),
        Value::String(s) => *s = mutate_text(s, rng, texts),
        Value::Array(list) => match rng.below(6) {
            0 if !list.is_empty() => drop(list.remove(rng.below(list.len()))),
            1 if !list.is_empty() => list.push(list[rng.below(list.len())].clone()),
            2 if !list.is_empty() && rng.one_in(20) => {
                let one = list[0].clone();
                let n = 10usize.pow(u32::try_from(1 + rng.below(4)).unwrap_or(1));
                list.extend(std::iter::repeat_n(one, n));
            }
            3 => list.reverse(),
            4 => list.push(number(extreme(rng))),
            _ => list.clear(),
        },
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let Some(key) = (!keys.is_empty()).then(|| keys[rng.below(keys.len())].clone()) else {
                return;
            };
            match rng.below(4) {
                0 => drop(map.shift_remove(&key)),
                1 => {
                    let v = map.shift_remove(&key).unwrap_or(Value::Null);
                    map.insert(
                        rng.pick(&["shape", "layout", "axis", "as", "vector", "x"]).to_string(),
                        v,
                    );
                }
                2 => {
                    let other: Map<String, Value> =
                        serde_json::from_str(rng.pick(SEEDS)).expect("seeds are JSON");
                    map.extend(other);
                }
                _ => {
                    let mut names: Vec<&str> =
                        Notation::all_notations().map(Notation::name).collect();
                    names.push("");
                    let field = rng.pick(&["as", "notation", "to"]);
                    map.insert(field.into(), json!(rng.pick(&names)));
                }
            }
        }
        _ => {}
    });
}

fn boundary(s: &str, rng: &mut Rng) -> usize {
    let mut i = rng.below(s.len() + 1);
    while !s.is_char_boundary(i) {
        i -= 1;
    }
    i
}

fn mutate_text(s: &str, rng: &mut Rng, texts: &[String]) -> String {
    let at = boundary(s, rng);
    match rng.below(10) {
        0..=3 => {
            // Another number in the place of one of its numbers.
            let starts: Vec<usize> = s
                .char_indices()
                .filter(|(i, c)| {
                    c.is_ascii_digit() && !s[..*i].ends_with(|p: char| p.is_ascii_digit())
                })
                .map(|(i, _)| i)
                .collect();
            let Some(start) = (!starts.is_empty()).then(|| rng.pick(&starts)) else {
                return extreme(rng).into();
            };
            let end = s[start..].find(|c: char| !c.is_ascii_digit()).map_or(s.len(), |i| start + i);
            let with = if rng.one_in(2) { extreme(rng).into() } else { plausible(rng).to_string() };
            format!("{}{with}{}", &s[..start], &s[end..])
        }
        4 => s[..at].to_string(),
        5 => s[at..].to_string(),
        6 => format!("{}{}{}", &s[..at], rng.pick(FRAGMENTS), &s[at..]),
        7 => {
            let other = &texts[rng.below(texts.len())];
            let cut = boundary(other, rng);
            format!("{}{}", &s[..at], &other[cut..])
        }
        8 if rng.one_in(10) => {
            let piece =
                rng.pick(FRAGMENTS).repeat(10usize.pow(u32::try_from(rng.below(5)).unwrap_or(0)));
            format!("{}{piece}{}", &s[..at], &s[at..])
        }
        _ => texts[rng.below(texts.len())].clone(),
    }
}

/// What the watchdog prints when a case never ends.
static CURRENT: Mutex<String> = Mutex::new(String::new());
static TURN: Mutex<()> = Mutex::new(());
static STARTED: AtomicU64 = AtomicU64::new(0);

fn watch(began: Instant) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let started = STARTED.load(Ordering::Relaxed);
            let now = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let hung = started != 0 && now.saturating_sub(started) > SECONDS * 10_000;
            if hung || ALLOCATOR.current_usage() > 4 * MEMORY_BYTES {
                let line = CURRENT.lock().map(|l| l.clone()).unwrap_or_default();
                eprintln!(
                    "{}: {}",
                    if hung { "never answers" } else { "eats memory" },
                    shown(&line)
                );
                std::process::abort();
            }
        }
    });
}

fn shown(line: &str) -> String {
    let cut: String = line.chars().take(2000).collect();
    if cut.len() < line.len() { format!("{cut}… ({} bytes)", line.len()) } else { cut }
}

/// How long this thread has run, where the system says.
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// What is wrong with the answer to a line, if anything is.
fn complaint(line: &str) -> Option<String> {
    // One at a time: the memory in use is counted for the whole process.
    let _turn = TURN.lock();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let time = |line: &str| {
        let start = Instant::now();
        (answer_line(line), start.elapsed())
    };
    let (reply, took) = time(line);
    let memory = ALLOCATOR.peak_usage().saturating_sub(before);
    // Writing a long answer takes time and room of its own. Another process may have had the
    // machine, so a slow line is tried again and only its own time counts.
    let limit = Duration::from_secs(SECONDS + (reply.len() >> 24) as u64);
    if took > limit {
        let before = thread_time();
        let wall = time(line).1;
        let own = thread_time().zip(before).map_or(wall, |(after, before)| after - before);
        if own > limit {
            return Some(format!("took {own:?}"));
        }
    }
    // A physical order is as long as the tensor, up to its own limit.
    let order = line.contains("physical_order");
    let long = reply.len() > ANSWER_BYTES && reply.len() > 16 * line.len() && !order;
    let memory_limit = MEMORY_BYTES * if order { 2 } else { 1 };
    if long || memory > memory_limit + 4 * reply.len() {
        return Some(format!("answered {} bytes, using {memory} bytes", reply.len()));
    }
    if reply.contains('\n') {
        return Some("answered several lines".into());
    }
    let Ok(Value::Object(reply)) = serde_json::from_str(&reply) else {
        return Some(format!("answered no JSON object: {}", shown(&reply)));
    };
    let id = match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(mut o)) => o.shift_remove("id").unwrap_or(Value::Null),
        _ => Value::Null,
    };
    if reply.get("id") != Some(&id) {
        return Some(format!("answered the id {:?}", reply.get("id")));
    }
    match (reply.len(), reply.get("ok"), reply.get("error")) {
        (2, Some(Value::Object(_)), None) => None,
        // Limits of minutes and gigabytes are for what nobody foresaw; what is known to be large has
        // limits of its own.
        (2, None, Some(Value::Object(e)))
            if ["internal", "over_time", "over_memory"].iter().any(|k| e["kind"] == *k) =>
        {
            Some(format!("answered the error {}", shown(&json!(e).to_string())))
        }
        (2, None, Some(Value::Object(e))) => {
            let fine = e.len() == 3
                && e["kind"].as_str().is_some_and(|k| !k.is_empty())
                && e["message"].as_str().is_some_and(|m| !m.is_empty() && m.len() < 4096)
                && (e["witness"].is_null() || e["witness"].is_object());
            (!fine).then(|| format!("answered the error {}", shown(&json!(e).to_string())))
        }
        _ => Some("answered neither one `ok` nor one `error`".into()),
    }
}

/// **Law**: what a parser accepts, its printer writes back.
fn round_trips(text: &str, axes: &AxisTable) -> Option<String> {
    let parsed = match catch_unwind(AssertUnwindSafe(|| parse(text, axes))) {
        Err(_) => return Some("parsing panicked".into()),
        Ok(Err(d)) => {
            let rendered = catch_unwind(AssertUnwindSafe(|| d.render(text, false)));
            return rendered.is_err().then(|| "rendering panicked".into());
        }
        Ok(Ok(parsed)) => parsed,
    };
    let printed = parsed.notation_text();
    let again = parse_as(&printed, parsed.notation(), axes);
    // Device layouts are equal whatever they are bound to.
    let bound = |p: &ParsedText| p.stick_layout().and_then(|s| s.host().cloned());
    let by_json = parsed.algebra_layout().is_none_or(|layout| {
        layout_json::layout_from_json(&layout_json::layout_to_json(layout), axes).as_ref()
            == Ok(layout)
    });
    let same = by_json && again.is_ok_and(|a| a == parsed && bound(&a) == bound(&parsed));
    (!same).then(|| format!("is printed as {}", shown(&printed)))
}

fn strings(v: &Value, out: &mut Vec<String>) {
    match v {
        Value::String(s) => out.push(s.clone()),
        Value::Array(list) => list.iter().take(64).for_each(|x| strings(x, out)),
        Value::Object(map) => map.values().for_each(|x| strings(x, out)),
        _ => {}
    }
}

fn seed_texts() -> Vec<String> {
    let mut texts: Vec<String> = preset::all_presets().into_iter().map(|p| p.text).collect();
    texts.extend(Notation::all_notations().map(|n| n.example_text().to_string()));
    for seed in SEEDS {
        strings(&serde_json::from_str(seed).expect("seeds are JSON"), &mut texts);
    }
    texts
}

/// Checks a line, with the watchdog looking.
fn check(line: &str, began: Instant) -> Option<String> {
    if let Ok(mut current) = CURRENT.lock() {
        current.clear();
        current.push_str(line);
    }
    let now = u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
    STARTED.store(now.max(1), Ordering::Relaxed);
    let found = complaint(line);
    STARTED.store(0, Ordering::Relaxed);
    found
}

#[test]
fn every_operation_has_a_seed_that_is_answered() {
    for operation in OPERATIONS {
        let tag = format!("\"op\":\"{}\"", operation.name);
        assert!(SEEDS.iter().any(|s| s.contains(&tag)), "no seed for {}", operation.name);
    }
    for seed in SEEDS {
        assert!(answer_line(seed).contains("\"ok\":"), "{seed}\n{}", answer_line(seed));
    }
}

/// Lines that once ate memory, never ended, or were answered wrongly.
#[test]
fn known_hostile_lines_stay_answered() {
    let quoted =
        format!(r#"{{"op":"canonicalize","layout":"S[2:1]","target":"{}"}}"#, "é".repeat(9999));
    let lines = [
        // Two elements share a place, and each has more replicas than can be listed.
        r#"{"op":"explain","layout":"S[(2147483648,10,3):(32@pid,4,21474836480@TCol)] + R[(4503599627370497):(1@pid)]","shape":[64424509440],"dtype":"float16"}"#,
        r#"{"op":"facts","layout":"S[2:0] + R[1099511627776:1]"}"#,
        r#"{"op":"equal","a":"S[2:1] + R[1099511627776:1]","b":"S[2:2] + R[1099511627776:1]"}"#,
        r#"{"op":"equal","a":"Swizzle(0,1,1) o S[4194304:1] + R[65536:8388608]","b":"S[4194304:1] + R[65536:8388608]"}"#,
        // Many ways to one address under a swizzle.
        r#"{"op":"parse","layout":"Swizzle(2,4,21) o S[(32768,8796093022208,9):(7,128,9)]"}"#,
        r#"{"op":"swizzle_for","layout":"S[(1,13):(1,0)] + R[(65536):(549755813888)]","shape":[1,13],"dtype":"float16","accesses":[{"kind":"row","index":0}]}"#,
        r#"{"op":"swizzle_for","layout":"S[(1024,1024):(1024,1)]","dtype":"float16","accesses":[{"kind":"column","index":0,"vector":8}]}"#,
        r#"{"op":"swizzle_for","layout":"S[(262144,1):(1,1)]","dtype":"float16","accesses":[{"kind":"column"},{"kind":"column"}]}"#,
        // Lanes and vectors without end.
        r#"{"op":"conflicts","layout":"S[(256,8192):(11,3)]","shape":[1048576,2],"dtype":"float16","access":{"kind":"column","index":0},"vector":1}"#,
        r#"{"op":"conflicts","layout":"S[(2,1099511627776):(1099511627776,1)]","dtype":"int8","access":{"kind":"row"},"vector":1099511627776}"#,
        r#"{"op":"analyze","layout":"S[(1024,1024):(1024,1)] + R[65536:0]","dtype":"int8","access":{"kind":"column"}}"#,
        // Four million places, looked at one by one.
        r#"{"op":"explain","layout":"Swizzle(6,1,2) o S[(65536,4,11):(1,-536870912@warpid,262144)] + 5@laneid","dtype":"float16"}"#,
        r#"{"op":"explain","layout":"S[(2048,13,12,524288):(262144@TCol,4398046511104,26624,0@pid)] + R[(127,16):(1@pid,-1@pid)] valid[15..17/2048,7..13/13,7..12/12,1024..1040/524288]","dtype":"float16"}"#,
        r#"{"op":"facts","layout":"Swizzle(1,2,14) o S[(6):(12)] + R[(1048576):(9)] + 134217728@laneid valid[2..6/6]"}"#,
        r#"{"op":"parse","layout":"Swizzle(0,2,31,outer) o S[(128,10,13,2097152):(1@laneid,68719476736@warpid,1280,6)] + 2048"}"#,
        // An id that is no integer.
        r#"{"id":18446744073709551616e+26,"op":"ze"}"#,
        &quoted,
    ];
    for line in lines {
        assert_eq!(complaint(line), None, "{}", shown(line));
    }
}

/// Every order of many small digits has a text, or a refusal, in every notation, soon.
#[test]
fn scattered_digits_are_converted_or_refused_in_time() {
    for digits in [12usize, 24, 40, 61] {
        let strides: Vec<String> = (0..digits).map(|k| (1i64 << k).to_string()).collect();
        let layout = format!("S[({}):({})]", vec!["2"; digits].join(","), strides.join(","));
        let half = digits / 2;
        for shape in [vec![1i64 << digits], vec![1 << half, 1 << (digits - half)], vec![2; digits]]
        {
            for to in Notation::all_notations() {
                let line = json!({"op": "convert", "layout": layout, "shape": shape, "to": to.name(), "dtype": "float16"});
                let line = line.to_string();
                assert_eq!(complaint(&line), None, "{}", shown(&line));
                if digits < 40 {
                    let reply = answer_line(&line);
                    assert!(reply.len() < 1 << 14, "{} bytes: {}", reply.len(), shown(&line));
                }
            }
        }
    }
}

/// Texts of a million characters are read, or refused, in time that grows with their length.
#[test]
fn long_texts_are_answered_in_time() {
    let n = 200_000;
    let list = |item: &str| vec![item; n].join(",");
    let texts = [
        format!("S[({}):({})]", list("1"), list("1")),
        format!("S[2:1] + R[({}):({})]", list("1"), list("3@laneid")),
        format!("S[2:1]{}", " + 1@laneid - 2".repeat(n)),
        format!("S[2:1] valid[{},1/2]", list("1")),
        format!("S[{}]", ",".repeat(5 * n)),
        format!("S[{}", "(".repeat(5 * n)),
        format!("S[2:1@{}]", "z".repeat(5 * n)),
        format!("S[1{}]", "0".repeat(5 * n)),
        format!("size=[{}] stride=[{}]", list("1"), list("1")),
        format!(
            "SpyreTensorLayout(device_size=[{},64], stride_map =[{},1], \
             device_dtype=DataFormats.SEN169_FP16, host_size=[{},64])",
            list("1"),
            list("-1"),
            list("1")
        ),
    ];
    for text in texts {
        for op in
            ["parse", "canonicalize", "facts", "explain", "inverse", "storage", "physical_order"]
        {
            let line = json!({"op": op, "layout": text}).to_string();
            assert_eq!(complaint(&line), None, "{op} {}", shown(&text));
        }
    }
}

#[test]
fn hostile_lines_are_answered() {
    let env = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let budget = Duration::from_secs(env("ZELLIGE_FUZZ_SECONDS").unwrap_or(8));
    let mut rng = Rng(env("ZELLIGE_FUZZ_SEED").unwrap_or(0x5EED_1E57).max(1));
    let texts = seed_texts();
    let axes = AxisTable::new();
    let began = Instant::now();
    watch(began);
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        eprintln!("panic at {place}: {}", info.payload_as_str().unwrap_or(""));
    }));
    let (mut cases, mut ok, mut failures) = (0u64, 0u64, Vec::new());
    while began.elapsed() < budget && failures.len() < 20 {
        let mut request = if rng.one_in(2) {
            generate(&mut rng)
        } else {
            serde_json::from_str(rng.pick(SEEDS)).expect("seeds are JSON")
        };
        for _ in 0..rng.below(4) {
            mutate(&mut request, &mut rng, &texts);
        }
        let mut line = request.to_string();
        if rng.one_in(10) {
            line = mutate_text(&line, &mut rng, &texts);
        }
        cases += 1;
        if let Some(what) = check(&line, began) {
            failures.push(format!("{what}: {}", shown(&line)));
            continue;
        }
        let mut found = Vec::new();
        strings(&request, &mut found);
        for text in found {
            if let Some(what) = round_trips(&text, &axes) {
                failures.push(format!("{} {what}", shown(&text)));
            }
            ok += 1;
        }
    }
    let _ = std::panic::take_hook();
    eprintln!("{cases} requests, {ok} texts, {:?}", began.elapsed());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
