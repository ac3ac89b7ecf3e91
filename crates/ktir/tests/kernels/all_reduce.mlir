// Eight cores in two groups of four: every core of a group gets the sum of its rows and writes its own copy.
#row    = affine_set<(i, j) : (i == 0, j >= 0, j <= 127)>
#whole  = affine_set<(i, j) : (i >= 0, i <= 7, j >= 0, j <= 127)>
#rows   = affine_map<(i, j) -> (i, j)>
#four   = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#groups = affine_set<(g) : (g >= 0, g <= 1)>

module {
  func.func @all_reduce(%x: index, %y: index) attributes {grid = [8]} {
    %core = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %xs = ktdp.construct_memory_view %x, sizes: [8, 128], strides: [128, 1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<8x128xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [8, 128], strides: [128, 1] {
      coordinate_set = #whole, memory_space = #ktdp.memory_space<global>
    } : memref<8x128xf16>
    %xt = ktdp.construct_access_tile %xs[%core, %c0] {
      access_tile_set = #row, access_tile_order = #rows
    } : memref<8x128xf16> -> !ktdp.access_tile<1x128xindex>
    %mine = ktdp.load %xt : !ktdp.access_tile<1x128xindex> -> tensor<1x128xf16>
    %future = ktdp.inter_tile_produce producer_tiles_per_group = #four
        : tensor<1x128xf16> -> !ktdp.tile_future<tensor<1x128xf16>, groups = #groups> {
      ^bb0(%g: index):
        ktdp.yield_partial %mine : tensor<1x128xf16>
    }
    %zero = arith.constant 0.0 : f16
    %empty = tensor.empty() : tensor<1x128xf16>
    %nothing = linalg.fill ins(%zero : f16) outs(%empty : tensor<1x128xf16>) -> tensor<1x128xf16>
    %sum = ktdp.inter_tile_reduce(%future) consumer_tiles_per_group = #four,
        identity(%nothing : tensor<1x128xf16>)
        : !ktdp.tile_future<tensor<1x128xf16>, groups = #groups> -> tensor<128xf16> {
      ^bb0(%a: tensor<1x128xf16>, %b: tensor<1x128xf16>):
        %into = tensor.empty() : tensor<1x128xf16>
        %s = linalg.add ins(%a, %b : tensor<1x128xf16>, tensor<1x128xf16>)
                        outs(%into : tensor<1x128xf16>) -> tensor<1x128xf16>
        ktdp.yield_reduced %s : tensor<1x128xf16>
    }
    %row = tensor.expand_shape %sum [[0, 1]] output_shape [1, 128]
             : tensor<128xf16> into tensor<1x128xf16>
    %yt = ktdp.construct_access_tile %ys[%core, %c0] {
      access_tile_set = #row, access_tile_order = #rows
    } : memref<8x128xf16> -> !ktdp.access_tile<1x128xindex>
    ktdp.store %row, %yt : tensor<1x128xf16>, !ktdp.access_tile<1x128xindex>
    return
  }
}
