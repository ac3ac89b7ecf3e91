// c = a b: 64 x 2048 x 8192 on a grid of 2 x 16, each core 32 x 512, the inner dimension in blocks of 128.
#a_whole = affine_set<(i, k) : (i >= 0, i <= 63, k >= 0, k <= 2047)>
#b_whole = affine_set<(k, j) : (k >= 0, k <= 2047, j >= 0, j <= 8191)>
#c_whole = affine_set<(i, j) : (i >= 0, i <= 63, j >= 0, j <= 8191)>
#a_block = affine_set<(i, k) : (i >= 0, i <= 31, k >= 0, k <= 127)>
#b_block = affine_set<(k, j) : (k >= 0, k <= 127, j >= 0, j <= 511)>
#c_block = affine_set<(i, j) : (i >= 0, i <= 31, j >= 0, j <= 511)>
#rows    = affine_map<(i, j) -> (i, j)>

module @products {
  func.func @matmul(%a: index, %b: index, %c: index, %depth: index) attributes {grid = [2, 16]} {
    %id:2 = ktdp.get_compute_tile_id : index, index
    %c0 = arith.constant 0 : index
    %c128 = arith.constant 128 : index
    %av = ktdp.construct_memory_view %a, sizes: [64, 2048], strides: [2048, 1] {
      coordinate_set = #a_whole, memory_space = #ktdp.memory_space<global>
    } : memref<64x2048xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [2048, 8192], strides: [8192, 1] {
      coordinate_set = #b_whole, memory_space = #ktdp.memory_space<global>
    } : memref<2048x8192xf16>
    %cv = ktdp.construct_memory_view %c, sizes: [64, 8192], strides: [8192, 1] {
      coordinate_set = #c_whole, memory_space = #ktdp.memory_space<global>
    } : memref<64x8192xf16>
    %zero = arith.constant dense<0.0> : tensor<32x512xf16>
    %sum = scf.for %k = %c0 to %depth step %c128 iter_args(%acc = %zero) -> (tensor<32x512xf16>) {
      %at = ktdp.construct_access_tile %av[%id#0 * 32, %k] {
        access_tile_set = #a_block, access_tile_order = #rows
      } : memref<64x2048xf16> -> !ktdp.access_tile<32x128xindex>
      %bt = ktdp.construct_access_tile %bv[%k, %id#1 * 512] {
        access_tile_set = #b_block, access_tile_order = #rows
      } : memref<2048x8192xf16> -> !ktdp.access_tile<128x512xindex>
      %al = ktdp.load %at : !ktdp.access_tile<32x128xindex> -> tensor<32x128xf16>
      %bl = ktdp.load %bt : !ktdp.access_tile<128x512xindex> -> tensor<128x512xf16>
      %into = tensor.empty() : tensor<32x512xf16>
      %ab = linalg.matmul ins(%al, %bl : tensor<32x128xf16>, tensor<128x512xf16>)
                          outs(%into : tensor<32x512xf16>) -> tensor<32x512xf16>
      %next = arith.addf %acc, %ab : tensor<32x512xf16>
      scf.yield %next : tensor<32x512xf16>
    }
    %ct = ktdp.construct_access_tile %cv[%id#0 * 32, %id#1 * 512] {
      access_tile_set = #c_block, access_tile_order = #rows
    } : memref<64x8192xf16> -> !ktdp.access_tile<32x512xindex>
    ktdp.store %sum, %ct : tensor<32x512xf16>, !ktdp.access_tile<32x512xindex>
    return
  }
}
