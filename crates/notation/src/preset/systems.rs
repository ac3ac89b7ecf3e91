//! Presets in the notations of other systems, by system.

use super::{AtomPreset, PresetFamily, fixed};

/// The presets of a system, under its name.
pub(super) const SYSTEMS: &[(&str, &[PresetFamily])] = &[
    (
        "CuTe",
        &[
            fixed!(
                "cute-column-major",
                "column-major, as CuTe counts: the first mode is fastest",
                "float32",
                [4, 8],
                "(4,8):(1,4)"
            ),
            fixed!(
                "cute-tiles",
                "2x4 tiles of a 4x8 matrix: each mode is tile and rest",
                "float32",
                [4, 8],
                "((2,2),(4,2)):((4,16),(1,8))"
            ),
            fixed!(
                // Morton order interleaves the bits of both coordinates, which strides express for
                // powers of two.
                "cute-morton",
                "4x4 in Morton (Z) order",
                "float32",
                [4, 4],
                "((2,2),(2,2)):((1,4),(2,8))"
            ),
            fixed!(
                "cute-sw128",
                "a 128-byte swizzle of 16-bit elements, on element offsets",
                "float16",
                [8, 64],
                "Sw<3,3,3> o 0 o (8,64):(64,1)"
            ),
            fixed!(
                // A byte swizzle with base 4 moves 16-byte units; on 2-byte elements its base is 4
                // - 1 = 3.
                "cute-sw128-bytes",
                "the same atom as C++ prints it: the swizzle is of byte addresses",
                "float16",
                [8, 64],
                "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)"
            ),
            fixed!(
                "cute-dsl-swizzle",
                "as the Python DSL prints it, read on element offsets",
                "float16",
                [8, 64],
                "S<3,3,3> o 0 o (8,64):(64,1)"
            ),
            fixed!(
                "cute-coordinates",
                "an identity tensor: places are coordinates, not memory",
                "int32",
                [4, 8],
                "(4,8):(1@0,1@1)"
            ),
        ],
    ),
    (
        "Triton",
        &[
            fixed!(
                "triton-blocked",
                "blocked: 4 elements a thread, 8x4 threads a warp, 4 warps",
                "float16",
                [32, 16],
                "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
            ),
            fixed!(
                "triton-slice",
                "slice: what is left of it when columns are reduced",
                "float32",
                [32],
                "#ttg.slice<{dim = 1, parent = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>}>"
            ),
            fixed!(
                // Version 2 is `mma.sync` of Ampere with its instruction shape 16x8.
                "triton-mma-v2",
                "nvidia_mma of Ampere: accumulator of 2x2 warps",
                "float32",
                [32, 16],
                "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
            ),
            fixed!(
                "triton-dot-a",
                "dot_op: the left operand of that product",
                "float16",
                [32, 16],
                "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 2}>"
            ),
            fixed!(
                "triton-dot-b",
                "dot_op: the right operand of that product",
                "float16",
                [16, 16],
                "#ttg.dot_op<{opIdx = 1, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 2}>"
            ),
            fixed!(
                // Version 3 is `wgmma` of Hopper: four warps along M, each with 16 rows.
                "triton-mma-v3",
                "nvidia_mma of Hopper: accumulator of one warp group",
                "float32",
                [64, 32],
                "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 32, 16]}>"
            ),
            fixed!(
                "triton-mfma",
                "amd_mfma: 32x32 accumulator of one wave of CDNA",
                "float32",
                [32, 32],
                "#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [32, 32, 8], isTransposed = true}>"
            ),
            fixed!(
                // Wave32 of RDNA: 16 columns on 16 lanes, and two groups of lanes for alternating
                // rows.
                "triton-wmma",
                "amd_wmma: accumulators of two waves of RDNA",
                "float32",
                [32, 16],
                "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {warp = [[1, 0]]}}>"
            ),
            fixed!(
                "triton-swizzled-shared",
                "swizzled_shared: runs of 8 are XORed by the row",
                "float16",
                [8, 64],
                "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
            ),
            fixed!(
                "triton-nvmma-shared",
                "nvmma_shared: shared memory for Hopper, 128-byte swizzle",
                "float16",
                [64, 64],
                "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>"
            ),
            fixed!(
                // Rows of 32 words would put a column into one bank; 4 words of padding shift each
                // row by 4 banks.
                "triton-padded-shared",
                "padded_shared: 4 more elements after every 32",
                "float32",
                [16, 32],
                "#ttg.padded_shared<[32:+4] {order = [1, 0], shape = [16, 32]}>"
            ),
            fixed!(
                "triton-tmem",
                "tensor memory of Blackwell, 128 rows",
                "float32",
                [128, 64],
                "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>"
            ),
            fixed!(
                "triton-linear",
                "a linear layout by its bases: register, lane, warp",
                "float16",
                [8, 4],
                r#"{"in":[["register",[[0,1]]],["lane",[[0,2],[1,0],[2,0]]],["warp",[[4,0]]],["block",[]]],"out":[["dim0",8],["dim1",4]]}"#
            ),
        ],
    ),
    (
        "XLA",
        &[
            fixed!(
                "xla-row-major",
                "minor-to-major {1,0}: row-major",
                "float32",
                [4, 6],
                "f32[4,6]{1,0}"
            ),
            fixed!(
                "xla-column-major",
                "minor-to-major {0,1}: column-major",
                "float32",
                [4, 6],
                "f32[4,6]{0,1}"
            ),
            fixed!(
                "xla-tpu-f32",
                "TPU tiles of 8x128, 32-bit",
                "float32",
                [16, 256],
                "f32[16,256]{1,0:T(8,128)}"
            ),
            fixed!(
                // The second tile packs two rows of 16-bit elements into one 32-bit word (OpenXLA
                // documentation, "Tiled layout", repeated tiling).
                "xla-tpu-bf16",
                "TPU tiles of 8x128, two rows packed into 32 bits",
                "bfloat16",
                [16, 256],
                "bf16[16,256]{1,0:T(8,128)(2,1)}"
            ),
            fixed!(
                "xla-padded",
                "a (3,5) array in tiles of 2x2, padded",
                "float32",
                [3, 5],
                "f32[3,5]{1,0:T(2,2)}"
            ),
        ],
    ),
    (
        "oneDNN",
        &[
            fixed!(
                "onednn-nhwc",
                "channels last, nhwc (acdb)",
                "float32",
                [2, 3, 4, 5],
                "dims=[2, 3, 4, 5] tag=nhwc"
            ),
            fixed!(
                "onednn-nChw16c",
                "channels in blocks of 16",
                "float32",
                [1, 32, 4, 4],
                "dims=[1, 32, 4, 4] tag=nChw16c"
            ),
            fixed!(
                "onednn-padded",
                "19 channels in blocks of 16: the last block is padded",
                "float32",
                [1, 19, 2, 4],
                "dims=[1, 19, 2, 4] tag=nChw16c"
            ),
            fixed!(
                // `4i16o4i`: groups of four input channels are adjacent for instructions that
                // multiply four bytes at once.
                "onednn-weights",
                "weights for int8 dot products, OIhw4i16o4i",
                "int8",
                [16, 16, 1, 2],
                "dims=[16, 16, 1, 2] tag=OIhw4i16o4i"
            ),
        ],
    ),
    (
        "MLIR",
        &[
            fixed!(
                "pack-tiles",
                "linalg.pack: tiles of 4x8",
                "float32",
                [16, 32],
                "shape = [16, 32] inner_dims_pos = [0, 1] inner_tiles = [4, 8]"
            ),
            fixed!(
                "pack-padded",
                "linalg.pack: 100 columns in tiles of 64, outer dimensions swapped",
                "float16",
                [4, 100],
                "shape = [4, 100] outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [64]"
            ),
            fixed!(
                "memref-strided",
                "memref with strides and an offset",
                "float32",
                [4, 6],
                "memref<4x6xf32, strided<[8, 1], offset: 2>>"
            ),
            fixed!(
                "memref-affine",
                "memref with an affine map: tiles of 4x4",
                "float32",
                [8, 16],
                "memref<8x16xf32, affine_map<(d0, d1) -> (d0 floordiv 4, d1 floordiv 4, d0 mod 4, d1 mod 4)>>"
            ),
        ],
    ),
    (
        "Shardings",
        &[
            fixed!(
                "jax-2d",
                "JAX: rows over x, columns over y",
                "float32",
                [8, 16],
                "Mesh('x': 2, 'y': 4) PartitionSpec('x', 'y') shape=[8, 16]"
            ),
            fixed!(
                "jax-replicated",
                "JAX: rows over x, a copy on every y",
                "float32",
                [8, 16],
                "Mesh('x': 2, 'y': 4) PartitionSpec('x', None) shape=[8, 16]"
            ),
            fixed!(
                "jax-two-axes",
                "JAX: rows over x and y together",
                "float32",
                [16, 8],
                "Mesh('x': 2, 'y': 4) PartitionSpec(('x', 'y'), None) shape=[16, 8]"
            ),
            fixed!(
                // The transposition exchanges which devices are neighbours along the columns.
                "hlo-iota",
                "HLO: devices in another order, <=[4,2]T(1,0)",
                "float32",
                [8, 16],
                "{devices=[2,4]<=[4,2]T(1,0)} shape=[8, 16]"
            ),
            fixed!(
                "hlo-partial",
                "HLO: the last tile dimension is copies",
                "float32",
                [8, 16],
                "{devices=[2,2,2]<=[8] last_tile_dim_replicate} shape=[8, 16]"
            ),
            fixed!(
                "shardy-2d",
                "Shardy: dimensions over axes of a mesh",
                "float32",
                [8, 16],
                r#"#sdy.mesh<["x"=2, "y"=4]> #sdy.sharding<@mesh, [{"x"}, {"y"}]> shape=[8, 16]"#
            ),
            fixed!(
                "dtensor-shard",
                "DTensor: sharded over one mesh dimension, copied over the other",
                "float32",
                [8, 16],
                "(Shard(dim=0), Replicate()) mesh=[2, 4] shape=[8, 16]"
            ),
            fixed!(
                "dtensor-2d",
                "DTensor: rows and columns over a 2x4 mesh",
                "float32",
                [8, 16],
                "(Shard(dim=0), Shard(dim=1)) mesh=[2, 4] shape=[8, 16]"
            ),
        ],
    ),
    (
        "PyTorch and NumPy",
        &[
            fixed!(
                "torch-transposed",
                "a transposed view: x.t()",
                "float32",
                [6, 4],
                "size=[6, 4] stride=[1, 6]"
            ),
            fixed!(
                // The memory format `torch.channels_last`: the channel has stride 1.
                "torch-channels-last",
                "torch.channels_last",
                "float32",
                [2, 3, 4, 5],
                "size=[2, 3, 4, 5] stride=[60, 1, 15, 3]"
            ),
            fixed!(
                "torch-expanded",
                "expand: every row is the same memory",
                "float32",
                [4, 6],
                "size=[4, 6] stride=[0, 1]"
            ),
            fixed!(
                "torch-slice",
                "every second column: x[:, ::2]",
                "float32",
                [4, 6],
                "size=[4, 6] stride=[12, 2]"
            ),
            fixed!(
                "numpy-fortran",
                "NumPy, order='F': column-major, strides in bytes",
                "float64",
                [4, 6],
                "{'shape': (4, 6), 'strides': (8, 32), 'typestr': '<f8', 'version': 3}"
            ),
            fixed!("numpy-c", "NumPy, order='C'", "float32", [4, 6], "shape=(4, 6) order='C'"),
        ],
    ),
];

/// Layouts of atoms, from Volta to Blackwell.
pub(super) const ATOMS: &[AtomPreset] = &[
    AtomPreset {
        name: "cute-sm70-c",
        title: "Volta, a quad pair",
        of: "SM70_8x8x4_F32F16F16F32_TN.C",
    },
    AtomPreset {
        name: "cute-sm75-c",
        title: "Turing, 8-bit integers",
        of: "SM75_8x8x16_S32S8S8S32_TN.C",
    },
    AtomPreset {
        name: "cute-sm80-a",
        title: "Ampere, a warp",
        of: "SM80_16x8x16_F32F16F16F32_TN.A",
    },
    AtomPreset {
        name: "cute-sm80-b",
        title: "Ampere, a warp",
        of: "SM80_16x8x16_F32F16F16F32_TN.B",
    },
    AtomPreset {
        name: "cute-sm80-c",
        title: "Ampere, a warp",
        of: "SM80_16x8x16_F32F16F16F32_TN.C",
    },
    AtomPreset {
        name: "cute-sm89-a",
        title: "Ada, 8-bit floats",
        of: "SM89_16x8x32_F32E4M3E4M3F32_TN.A",
    },
    AtomPreset {
        name: "cute-sm90-a",
        title: "Hopper, A in registers",
        of: "SM90_64x64x16_F32F16F16_RS.A",
    },
    AtomPreset {
        name: "cute-sm90-c",
        title: "Hopper, a warp group",
        of: "SM90_64x64x16_F32F16F16_SS.C",
    },
    AtomPreset {
        name: "cute-sm100-c",
        title: "Blackwell, one thread for the CTA",
        of: "SM100_MMA_F16BF16_SS<128,128>.C",
    },
    AtomPreset {
        name: "cute-ldmatrix",
        title: "ldmatrix of four 8x8 matrices",
        of: "SM75_U32x4_LDSM_N.dst",
    },
    AtomPreset {
        name: "cute-tmem-load",
        title: "Blackwell, tensor memory to registers",
        of: "SM100_TMEM_LOAD_16dp256b1x.dst",
    },
];
