"""Layouts in every notation: read, written, compared, explained; CuTe's operators."""

import pickle
from itertools import product

import pytest

import zellige
from zellige import Layout, LayoutError

# One row-major matrix of 16 x 256 in tiles of 8 x 128, as each system writes it.
TILES = {
    "tirx": "S[(2,8,2,128):(2048,128,1024,1)]",
    "cute": "((8,2),(128,2)):((128,2048),(1,1024))",
    "xla": "f32[16,256]{1,0:T(8,128)}",
    "onednn": "AB8a128b",
    "pack": "inner_dims_pos = [0, 1] inner_tiles = [8, 128]",
    "memref": "affine_map<(d0, d1) -> (d0 floordiv 8, d1 floordiv 128, d0 mod 8, d1 mod 128)>",
}


@pytest.mark.parametrize("notation", TILES)
def test_one_layout_in_many_notations(notation):
    layout = Layout(TILES[notation], shape=[16, 256])
    assert layout.notation == notation
    for i, j in product((0, 7, 8, 15), (0, 127, 128, 255)):
        expected = (i // 8) * 2048 + (j // 128) * 1024 + (i % 8) * 128 + j % 128
        assert layout.apply(i, j) == [{"m": expected}]
    for other, text in TILES.items():
        assert layout == Layout(text, shape=[16, 256]), other
        again = Layout(layout.to(other), shape=[16, 256], notation=other)
        assert again == layout, other
    assert set(TILES) <= set(layout.notations())
    assert "tiles of 8 x 128" in layout.explain()


def test_a_conversion_that_has_no_text_says_why():
    layout = Layout("Sw<3,3,3> o (8,64):(64,1)")
    with pytest.raises(LayoutError, match=r"not expressible.*element"):
        layout.to("onednn")
    with pytest.raises(LayoutError, match="give a dtype"):
        layout.to("spyre")
    with pytest.raises(LayoutError, match="there is no notation `klingon`; notations are tirx"):
        layout.to("klingon")
    with pytest.raises(LayoutError, match="of which tensor"):
        Layout("aBcd16b")


def test_shardings_keep_their_devices():
    text = "Mesh('x': 2, 'y': 4) PartitionSpec('x', 'y')"
    layout = Layout(text, shape=[8, 16])
    assert len(layout.axes) >= 2
    hlo = layout.to("hlo")
    assert hlo.startswith("{devices=[2,4]"), hlo
    # Each notation names devices in its own way; they are compared by number.
    assert Layout(hlo, shape=[8, 16]) == layout
    assert Layout("{devices=[2,4]<=[4,2]T(1,0)}", shape=[8, 16]) != layout
    placements = layout.to("dtensor")
    assert Layout(placements, shape=[8, 16]) == layout
    assert "Shard(dim=0)" in placements and "Shard(dim=1)" in placements
    with pytest.raises(LayoutError, match="Partial"):
        Layout("(Partial(sum),) mesh=[4]", shape=[8, 16])


def test_copies_are_equal_whatever_the_text():
    for text, shape, notation in [
        ("(8,64):(64,1)", None, None),
        ("aBcd16b", [2, 32, 4, 4], None),
        ("{1,0:T(8,128)}", [16, 256], "xla"),
        ("#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>", [32, 16], None),
    ]:
        layout = Layout(text, shape=shape, notation=notation)
        copy = pickle.loads(pickle.dumps(layout))
        assert copy == layout and str(copy) == str(layout) and copy.notation == layout.notation
        assert eval(repr(layout), {"Layout": Layout}) == layout


def test_cute_operators_have_the_nesting_that_cute_promises():
    a = Layout("(8,16):(16,1)")
    assert str(a.coalesce()) == "(8,16):(16,1)"
    assert str(a.logical_divide([4, 8])) == "((4,2),(8,2)):((16,64),(1,8))"
    assert str(a.zipped_divide([4, 8])) == "((4,8),(2,2)):((16,1),(64,8))"
    assert str(a.tiled_divide((4, 8))) == "((4,8),2,2):((16,1),64,8)"
    assert str(a.flat_divide((4, 8))) == "(4,8,2,2):(16,1,64,8)"
    assert str(Layout("(2,2):(1,2)").blocked_product("(2,3):(1,2)")) == "((2,2),(2,3)):((1,4),(2,8))"
    assert str(Layout("(2,2):(1,2)").raked_product("(2,3):(1,2)")) == "((2,2),(3,2)):((4,1),(8,2))"
    assert str(Layout("4:2").complement(24)) == "(2,3):(1,8)"
    assert str(Layout("(4,8):(8,1)").right_inverse()) == "(8,4):(4,1)"
    # Of any notation that CuTe has a text for.
    assert Layout("size=[8, 16] stride=[16, 1]").zipped_divide([4, 8]) == a.zipped_divide([4, 8])


def test_cute_composition_is_right_or_refused_with_a_witness():
    composed = Layout("(8,2,4):(0,8,16)").composition("(12,4):(12,1)")
    assert composed.shape == (12, 4)
    for i, j in product(range(12), range(4)):
        inner = 12 * i + j
        # The first mode is fastest, and the last one goes on past its extent.
        outer = 8 * (inner // 8 % 2) + 16 * (inner // 16)
        assert composed.apply(i, j) == [{"m": outer}], (i, j)
    with pytest.raises(LayoutError, match=r"(?i)witness|index|element"):
        Layout("(6,2):(1,7)").composition("(3,2):(2,3)")


MODULE = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#smem = #ttg.shared_memory
module {
  %1 = foo : tensor<128x64xf16, #blocked>
  %2 = bar : !ttg.memdesc<128x64xf16, #shared, #smem, mutable>
}
"""


def test_the_layouts_of_a_triton_module():
    found = Layout.from_ttgir(MODULE)
    assert list(found) == ["tensor<128x64xf16, #blocked>", "!ttg.memdesc<128x64xf16, #shared, #smem, mutable>"]
    blocked, shared = found.values()
    assert blocked.shape == (128, 64) and sorted(blocked.axes) == ["laneid", "m", "warpid"]
    assert shared.apply(1, 0) == [{"m": 72}]
    with pytest.raises(LayoutError, match="the text has 2 layouts"):
        Layout(MODULE)
    with pytest.raises(LayoutError, match="sizePerThread"):
        Layout.from_ttgir(MODULE.replace("sizePerThread = [1, 4]", "sizePerThread = [1, 3]"))


def test_notebooks_show_words_and_other_notations():
    html = Layout("(8,64):(64,1)")._repr_html_()
    assert "row-major" in html and "<svg" in html and "size=[8, 64] stride=[64, 1]" in html
    assert "Sw&lt;" in Layout("Sw<3,3,3> o (8,64):(64,1)")._repr_html_()


def test_every_example_is_read():
    for notation in zellige.ask({"op": "notations"})["notations"]:
        layout = Layout(notation["example"])
        assert layout.notation == notation["name"]
        assert layout.to(notation["name"]) == notation["example"]
