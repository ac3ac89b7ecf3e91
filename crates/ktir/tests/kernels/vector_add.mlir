// z = x + y: 4096 numbers, 128 on each of 32 cores.
#whole = affine_set<(i) : (i >= 0, i <= 4095)>
#block = affine_set<(i) : (i >= 0, i <= 127)>
#rows  = affine_map<(i) -> (i)>

module {
  func.func @vector_add(%x: index, %y: index, %z: index) attributes {grid = [32]} {
    %core = ktdp.get_compute_tile_id : index
    %xs = ktdp.construct_memory_view %x, sizes: [4096], strides: [1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<4096xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [4096], strides: [1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<4096xf16>
    %zs = ktdp.construct_memory_view %z, sizes: [4096], strides: [1] {
      coordinate_set = #whole, memory_space = #ktdp.spyre_memory_space<HBM>
    } : memref<4096xf16>
    // Subscripts are affine.
    %xt = ktdp.construct_access_tile %xs[%core * 128] {
      access_tile_set = #block, access_tile_order = #rows
    } : memref<4096xf16> -> !ktdp.access_tile<128xindex>
    %yt = ktdp.construct_access_tile %ys[%core * 128] {
      access_tile_set = #block, access_tile_order = #rows
    } : memref<4096xf16> -> !ktdp.access_tile<128xindex>
    %zt = ktdp.construct_access_tile %zs[%core * 128] {
      access_tile_set = #block, access_tile_order = #rows
    } : memref<4096xf16> -> !ktdp.access_tile<128xindex>
    %a = ktdp.load %xt : <128xindex> -> tensor<128xf16>
    %b = ktdp.load %yt : <128xindex> -> tensor<128xf16>
    %sum = arith.addf %a, %b : tensor<128xf16>
    ktdp.store %sum, %zt : tensor<128xf16>, <128xindex>
    return
  }
}
