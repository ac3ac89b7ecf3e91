// Rows of 256 numbers, normalised in float32, scaled and shifted; 30 rows on 4 cores, the last one has fewer.
#whole = affine_set<(i, j) : (i >= 0, i <= 29, j >= 0, j <= 255)>
#param = affine_set<(j) : (j >= 0, j <= 255)>
#row   = affine_set<(i, j) : (i == 0, j >= 0, j <= 255)>
#rows  = affine_map<(i, j) -> (i, j)>
#line  = affine_map<(j) -> (j)>
#start = affine_map<(c) -> (c * 8)>

module {
  func.func @inverse(%v: f32) -> f32 {
    %r = math.rsqrt %v : f32
    return %r : f32
  }

  func.func @layernorm(%x: index, %w: index, %b: index, %y: index, %eps: f32)
      attributes {grid = [4]} {
    %core = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c30 = arith.constant 30 : index
    %first = affine.apply #start(%core)
    %end = arith.addi %first, %c8 : index
    %short = arith.cmpi slt, %end, %c30 : index
    %last = arith.select %short, %end, %c30 : index
    %xs = ktdp.construct_memory_view %x, sizes: [30, 256], strides: [256, 1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<30x256xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [30, 256], strides: [256, 1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<30x256xf16>
    %ws = ktdp.construct_memory_view %w, sizes: [256], strides: [1] {
      coordinate_set = #param, memory_space = #ktdp.memory_space<global>
    } : memref<256xf16>
    %bs = ktdp.construct_memory_view %b, sizes: [256], strides: [1] {
      coordinate_set = #param, memory_space = #ktdp.memory_space<global>
    } : memref<256xf16>
    %wt = ktdp.construct_access_tile %ws[%c0] {
      access_tile_set = #param, access_tile_order = #line
    } : memref<256xf16> -> !ktdp.access_tile<256xindex>
    %bt = ktdp.construct_access_tile %bs[%c0] {
      access_tile_set = #param, access_tile_order = #line
    } : memref<256xf16> -> !ktdp.access_tile<256xindex>
    %w16 = ktdp.load %wt : !ktdp.access_tile<256xindex> -> tensor<256xf16>
    %b16 = ktdp.load %bt : !ktdp.access_tile<256xindex> -> tensor<256xf16>
    %scale = arith.extf %w16 : tensor<256xf16> to tensor<256xf32>
    %shift = arith.extf %b16 : tensor<256xf16> to tensor<256xf32>
    %n = arith.constant 256.0 : f32
    %nothing = arith.constant dense<0.0> : tensor<1xf32>
    scf.for %r = %first to %last step %c1 {
      %xt = ktdp.construct_access_tile %xs[%r, %c0] {
        access_tile_set = #row, access_tile_order = #rows
      } : memref<30x256xf16> -> !ktdp.access_tile<1x256xindex>
      %x16 = ktdp.load %xt : !ktdp.access_tile<1x256xindex> -> tensor<1x256xf16>
      %v = arith.extf %x16 : tensor<1x256xf16> to tensor<1x256xf32>
      %sum = linalg.reduce { arith.addf } ins(%v : tensor<1x256xf32>)
               outs(%nothing : tensor<1xf32>) dimensions = [1]
      %total = tensor.extract %sum[%c0] : tensor<1xf32>
      %mean = arith.divf %total, %n : f32
      %means = tensor.splat %mean : tensor<1x256xf32>
      %centred = arith.subf %v, %means : tensor<1x256xf32>
      %squared = arith.mulf %centred, %centred : tensor<1x256xf32>
      %sums = linalg.reduce { arith.addf } ins(%squared : tensor<1x256xf32>)
                outs(%nothing : tensor<1xf32>) dimensions = [1]
      %squares = tensor.extract %sums[%c0] : tensor<1xf32>
      %variance = arith.divf %squares, %n : f32
      %padded = arith.addf %variance, %eps : f32
      %rstd = func.call @inverse(%padded) : (f32) -> (f32)
      %out = tensor.empty() : tensor<1x256xf32>
      %norm = linalg.generic {
          indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                           affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}
          ins(%centred, %scale, %shift : tensor<1x256xf32>, tensor<256xf32>, tensor<256xf32>)
          outs(%out : tensor<1x256xf32>) {
        ^bb0(%c: f32, %g: f32, %h: f32, %o: f32):
          %a = arith.mulf %c, %rstd : f32
          %s = arith.mulf %a, %g : f32
          %t = arith.addf %s, %h : f32
          linalg.yield %t : f32
      } -> tensor<1x256xf32>
      %y16 = arith.truncf %norm : tensor<1x256xf32> to tensor<1x256xf16>
      %yt = ktdp.construct_access_tile %ys[%r, %c0] {
        access_tile_set = #row, access_tile_order = #rows
      } : memref<30x256xf16> -> !ktdp.access_tile<1x256xindex>
      ktdp.store %y16, %yt : tensor<1x256xf16>, !ktdp.access_tile<1x256xindex>
    }
    return
  }
}
