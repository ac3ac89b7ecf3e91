// z = x + y: 60000 numbers of 16 bits, 2000 on each of 30 cores.
#whole = affine_set<(i) : (i >= 0, i <= 59999)>
#block = affine_set<(i) : (i >= 0, i <= 1999)>
#order = affine_map<(i) -> (i)>

module {
  func.func @add(%x: index, %y: index, %z: index) attributes {grid = [30]} {
    %core = ktdp.get_compute_tile_id : index
    // What lies in memory, from the address that an argument gives.
    %xs = ktdp.construct_memory_view %x, sizes: [60000], strides: [1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<60000xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [60000], strides: [1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<60000xf16>
    %zs = ktdp.construct_memory_view %z, sizes: [60000], strides: [1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<60000xf16>
    // The tile of this core.
    %xt = ktdp.construct_access_tile %xs[%core * 2000] {
      access_tile_set = #block, access_tile_order = #order
    } : memref<60000xf16> -> !ktdp.access_tile<2000xindex>
    %yt = ktdp.construct_access_tile %ys[%core * 2000] {
      access_tile_set = #block, access_tile_order = #order
    } : memref<60000xf16> -> !ktdp.access_tile<2000xindex>
    %zt = ktdp.construct_access_tile %zs[%core * 2000] {
      access_tile_set = #block, access_tile_order = #order
    } : memref<60000xf16> -> !ktdp.access_tile<2000xindex>
    %a = ktdp.load %xt : <2000xindex> -> tensor<2000xf16>
    %b = ktdp.load %yt : <2000xindex> -> tensor<2000xf16>
    %sum = arith.addf %a, %b : tensor<2000xf16>
    ktdp.store %sum, %zt : tensor<2000xf16>, <2000xindex>
    return
  }
}
