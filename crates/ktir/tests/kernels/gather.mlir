// Rows of a table by an index: out[i, j] = table[index[i], j], eight rows on each of 2 cores.
#table = affine_set<(i, j) : (i >= 0, i <= 99, j >= 0, j <= 63)>
#index = affine_set<(i) : (i >= 0, i <= 15)>
#out   = affine_set<(i, j) : (i >= 0, i <= 15, j >= 0, j <= 63)>
#block = affine_set<(i, j) : (i >= 0, i <= 7, j >= 0, j <= 63)>
#rows  = affine_map<(i, j) -> (i, j)>

module {
  func.func @gather(%table: index, %index: index, %out: index) attributes {grid = [2]} {
    %core = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %first = arith.muli %core, %c8 : index
    %ts = ktdp.construct_memory_view %table, sizes: [100, 64], strides: [64, 1] {
      coordinate_set = #table, memory_space = #ktdp.memory_space<global>
    } : memref<100x64xf16>
    %is = ktdp.construct_memory_view %index, sizes: [16], strides: [1] {
      coordinate_set = #index, memory_space = #ktdp.memory_space<global>
    } : memref<16xi32>
    %os = ktdp.construct_memory_view %out, sizes: [16, 64], strides: [64, 1] {
      coordinate_set = #out, memory_space = #ktdp.memory_space<global>
    } : memref<16x64xf16>
    %tt = ktdp.construct_indirect_access_tile intermediate_variables(%i, %j)
        %ts[ind(%is[%first + %i]), (%j)] {
      variables_space_set = #block, variables_space_order = #rows
    } : memref<100x64xf16>, memref<16xi32> -> !ktdp.access_tile<8x64xindex>
    %v = ktdp.load %tt : !ktdp.access_tile<8x64xindex> -> tensor<8x64xf16>
    %ot = ktdp.construct_access_tile %os[%first, %c0] {
      access_tile_set = #block, access_tile_order = #rows
    } : memref<16x64xf16> -> !ktdp.access_tile<8x64xindex>
    ktdp.store %v, %ot : tensor<8x64xf16>, !ktdp.access_tile<8x64xindex>
    return
  }
}
