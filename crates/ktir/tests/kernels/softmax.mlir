// Softmax of each of 4096 rows of 1024, 128 rows on each of 32 cores.
#whole = affine_set<(i, j) : (i >= 0, i <= 4095, j >= 0, j <= 1023)>
#row   = affine_set<(i, j) : (i == 0, j >= 0, j <= 1023)>
#rows  = affine_map<(i, j) -> (i, j)>

module {
  func.func @softmax(%x: index, %y: index) attributes {grid = [32]} {
    %core = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %first = arith.muli %core, %c128 : index
    %last = arith.addi %first, %c128 : index
    %xs = ktdp.construct_memory_view %x, sizes: [4096, 1024], strides: [1024, 1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<4096x1024xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [4096, 1024], strides: [1024, 1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<4096x1024xf16>
    %minus_infinity = arith.constant 0xFC00 : f16
    %zero = arith.constant 0.0 : f16
    %lowest = tensor.splat %minus_infinity : tensor<1xf16>
    %nothing = tensor.splat %zero : tensor<1xf16>
    scf.for %r = %first to %last step %c1 {
      %xt = ktdp.construct_access_tile %xs[%r, %c0] {
        access_tile_set = #row, access_tile_order = #rows
      } : memref<4096x1024xf16> -> !ktdp.access_tile<1x1024xindex>
      %v = ktdp.load %xt : !ktdp.access_tile<1x1024xindex> -> tensor<1x1024xf16>
      %max = linalg.reduce { arith.maximumf } ins(%v : tensor<1x1024xf16>)
               outs(%lowest : tensor<1xf16>) dimensions = [1]
      %m = tensor.extract %max[%c0] : tensor<1xf16>
      %ms = tensor.splat %m : tensor<1x1024xf16>
      %shifted = arith.subf %v, %ms : tensor<1x1024xf16>
      %e = math.exp %shifted : tensor<1x1024xf16>
      %sum = linalg.reduce ins(%e : tensor<1x1024xf16>) outs(%nothing : tensor<1xf16>)
               dimensions = [1] (%in: f16, %so_far: f16) {
        %s = arith.addf %in, %so_far : f16
        linalg.yield %s : f16
      }
      %d = tensor.extract %sum[%c0] : tensor<1xf16>
      %ds = tensor.splat %d : tensor<1x1024xf16>
      %p = arith.divf %e, %ds : tensor<1x1024xf16>
      %yt = ktdp.construct_access_tile %ys[%r, %c0] {
        access_tile_set = #row, access_tile_order = #rows
      } : memref<4096x1024xf16> -> !ktdp.access_tile<1x1024xindex>
      ktdp.store %p, %yt : tensor<1x1024xf16>, !ktdp.access_tile<1x1024xindex>
    }
    return
  }
}
