"""The layout API, which needs numpy alone."""

import importlib.metadata
import pickle
import subprocess
import sys

import pytest
import zellige
from zellige import DataFormats, ElementArrangement, Layout, LayoutError, SpyreTensorLayout


def test_import_works_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import zellige, numpy as np\n"
        "l = zellige.Layout('S[(2,3):(3,1)]')\n"
        "print(zellige.relayout(np.arange(6), None, 'S[(2,3):(1,2)]'))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[0 3 1 4 2 5]"


def test_parse_apply_and_print():
    l = Layout("S[(8,64):(64,1)]")
    assert l.shape == (8, 64) and l.size == 512 and l.axes == ["m"] and l.span() == 512
    assert l.apply(1, 2) == l.apply([1, 2]) == l((1, 2)) == [{"m": 66}]
    assert str(l) == "S[(8,64):(64,1)]"
    assert l.to("torch") == "size=[8, 64] stride=[64, 1]"
    assert eval(repr(l), {"Layout": Layout}) == l
    assert pickle.loads(pickle.dumps(l)) == l


def test_an_element_may_have_several_places():
    l = Layout("S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid", shape=[8, 16])
    assert l.apply(7, 15) == [{"laneid": 31, "m": 1, "warpid": 6}, {"laneid": 31, "m": 1, "warpid": 10}]


def test_scale_factors_are_where_instructions_read_them():
    l = Layout.scale_factors(128, 16, sf_per_mma=4)
    assert l.shape == (128, 16) and sorted(l.axes) == ["TCol", "TLane"]
    assert l == Layout("S[(4,32,4,4):(4@TCol,1@TLane,16@TCol,1@TCol)] + R[4:32@TLane]")
    # Two stages of 64 rows; two instructions read each factor, and four factors are in a cell.
    l = Layout.scale_factors(64, 8, reuse=2, pipe_depth=2)
    assert l.shape == (2, 64, 16)
    for stage in range(2):
        for row in range(64):
            for j in range(16):
                cell = (stage * 2 + j // 2 // 4) * 2 + row // 32
                want = [{"TLane": row % 32 + 32 * q, "TCol": cell * 4 + j // 2 % 4} for q in range(4)]
                assert sorted(l.apply(stage, row, j), key=lambda p: p["TLane"]) == want
    answer = zellige.ask({"op": "scale_factors", "rows": 64, "groups": 8, "reuse": 2, "pipe_depth": 2})
    assert Layout(answer["layout"], answer["shape"]) == l and answer["columns"] == 8
    with pytest.raises(LayoutError, match="groups is 6; the factors of a row are a multiple of sf_per_mma, which is 4"):
        Layout.scale_factors(128, 6, sf_per_mma=4)


def test_equality_is_of_functions():
    a, b = Layout("S[(8,64):(64,1)]"), Layout("size=[8, 64] stride=[64, 1]")
    assert a == b and not a != b
    c = Layout("S[(8,64):(1,8)]")
    assert a != c and a.difference(c) == {"index": 1, "left": [{"m": 1}], "right": [{"m": 8}]}
    assert a.difference(b) is None
    with pytest.raises(TypeError):
        hash(a)


def test_inverse_compose_and_slices():
    l = Layout("S[(8,64):(1,8)]")
    inverse = l.inverse()
    for i in range(8):
        for j in range(64):
            (place,) = l.apply(i, j)
            assert inverse.apply(place["m"]) == [{"m": i * 64 + j}]
    assert inverse @ l == Layout("S[512:1]")
    part = l[2:4, 8:16]
    assert part.shape == (2, 8)
    assert part.apply(1, 3) == l.apply(3, 11)


def test_refusals_carry_a_reason():
    with pytest.raises(LayoutError, match="3 extents but 2 strides"):
        Layout("S[(8,4,2):(4,1)]")
    with pytest.raises(LayoutError, match="notation"):
        Layout("S[(8):(1)]", notation="klingon")
    with pytest.raises(LayoutError):
        Layout("S[(4,2):(0,1)]").inverse()
    with pytest.raises(LayoutError):
        Layout("S[(8,64):(64,1)]").apply(8, 0)
    with pytest.raises(TypeError):
        zellige.draw(42)
    with pytest.raises(IndexError):
        Layout("S[(8,64):(64,1)]")[::2]


# From the device's documents and examples: size, dtype, dim_order -> device_size, stride_map.
STICKS = [
    ((1024, 256), None, [4, 1024, 64], [64, 256, 1]),
    ((5, 100, 150), None, [100, 3, 5, 64], [150, 64, 15000, 1]),
    ((5, 100, 150), [1, 0, 2], [5, 3, 100, 64], [15000, 64, 150, 1]),
    ((50, 10, 200), None, [10, 4, 50, 64], [200, 64, 2000, 1]),
    ((128, 256, 512), None, [256, 8, 128, 64], [512, 64, 131072, 1]),
    ((512, 8, 256), None, [8, 4, 512, 64], [256, 64, 2048, 1]),
    ((512, 1), None, [8, 64], [64, 1]),
    ((512, 1), [0, 1], [1, 512, 64], [-1, 1, -1]),
    ((4, 0), None, [0, 4, 64], None),
    ((), None, [1, 64], [-1, -1]),
]


@pytest.mark.parametrize("size, order, device_size, stride_map", STICKS)
def test_device_layouts(size, order, device_size, stride_map):
    l = SpyreTensorLayout(size, "float16") if order is None else SpyreTensorLayout(size, "float16", order)
    assert l.device_size == device_size
    assert stride_map is None or l.stride_map == stride_map
    assert l.device_dtype == DataFormats.SEN169_FP16 and l.elems_per_stick() == 64


def test_device_layouts_print_compare_and_travel():
    l = SpyreTensorLayout([5, 100, 150], "float16")
    text = "SpyreTensorLayout(device_size=[100, 3, 5, 64], stride_map =[150, 64, 15000, 1], device_dtype=DataFormats.SEN169_FP16)"
    assert str(l) == repr(l) == text
    same = SpyreTensorLayout([100, 3, 5, 64], [150, 64, 15000, 1], DataFormats.SEN169_FP16)
    assert l == same and hash(l) == hash(same) and {l, same} == {l}
    assert pickle.loads(pickle.dumps(l)) == l and pickle.loads(pickle.dumps(l)).host_size == [5, 100, 150]
    assert l != SpyreTensorLayout([5, 100, 150], "float32")
    assert l.nbytes == 100 * 3 * 5 * 128
    assert l.restickify(1).device_size[-1] == 64 and l.restickify(1).stride_map[-1] == 150
    strided = SpyreTensorLayout([5, 100, 150], [15000, 150, 1], "float16", [0, 1, 2])
    assert strided == l


def test_dimensions_along_the_sticks():
    layout = SpyreTensorLayout([5, 100, 150], "float16")
    assert layout.stick_dims([5, 100, 150]) == [2]
    assert layout.restickify(1).stick_dims([5, 100, 150]) == [1]
    assert SpyreTensorLayout([8, 64], "float16", [0, 1, -1]).stick_dims([8, 64]) == []
    # A stick over two dimensions, which no dim_map describes.
    fused = SpyreTensorLayout([4, 64], [64, 1], DataFormats.SEN169_FP16)
    assert fused.stick_dims([8, 32]) == [0, 1]


def test_formats():
    for dtype, format, eps in [
        ("float16", DataFormats.SEN169_FP16, 64), ("bfloat16", DataFormats.SEN169_FP16, 64),
        ("float32", DataFormats.IEEE_FP32, 32), ("bool", DataFormats.SEN169_FP16, 64),
        ("int8", DataFormats.SENINT8, 128), ("int32", DataFormats.IEEE_INT32, 32),
        ("int64", DataFormats.IEEE_INT32, 32), ("float8_e4m3fn", DataFormats.SEN143_FP8, 128),
    ]:
        l = SpyreTensorLayout([3, 1000], dtype)
        assert (l.device_dtype, l.elems_per_stick()) == (format, eps)
    with pytest.raises(TypeError, match="float64.*float32"):
        SpyreTensorLayout([3], "float64")
    with pytest.raises(TypeError, match="takes"):
        SpyreTensorLayout([3])


def test_explain_draw_and_ask():
    stick = SpyreTensorLayout([5, 100], "float16")
    assert "sticks" in zellige.explain(stick) and "padding" in zellige.explain(stick)
    drawing = zellige.draw(Layout("S[(8,8):(8,1)]"), dtype="float16", title="rows")
    assert drawing._repr_svg_().startswith("<svg") and "rows" in drawing.svg and "63" in str(drawing)
    assert Layout("S[(4,4):(4,1)]")._repr_svg_().startswith("<svg")
    assert stick._repr_svg_().startswith("<svg")
    facts = zellige.ask({"op": "facts", "layout": "S[(8,64):(64,1)]"})
    assert facts["bijective"] is True
    with pytest.raises(LayoutError):
        zellige.ask({"op": "no such"})


def test_save_drawing(tmp_path):
    zellige.draw("S[(4,4):(4,1)]").save(tmp_path / "l.svg")
    assert (tmp_path / "l.svg").read_text().startswith("<svg")


def test_the_notices_of_others_travel_with_the_package():
    files = importlib.metadata.files("zellige") or []
    found = [f for f in files if f.name == "THIRD-PARTY-NOTICES"]
    assert found and ".dist-info" in str(found[0])
    assert "serde_json " in found[0].read_text()
    assert any(f.name == "LICENSE" for f in files)


# [100, 200, 500] as a corner of [128, 256, 512]: the padded example of the device's documents.
PADDED = ([256, 8, 128, 64], [512, 64, 131072, 1], DataFormats.SEN169_FP16)


def test_a_layout_keeps_the_strides_it_was_given():
    size, strides = [100, 200, 500], [131072, 512, 1]
    given = SpyreTensorLayout(*PADDED, host_size=size, host_stride=strides)
    for bound in (given, SpyreTensorLayout(*PADDED).with_host(size), given.with_host(size, strides)):
        assert (bound.host_size, bound.host_stride) == (size, strides)
        layout = bound.layout()
        for i, j, k in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 499), (99, 199, 499)]:
            place = ((j * 8 + k // 64) * 128 + i) * 64 + k % 64
            assert layout.apply(i, j, k) == [{"m": place}]
        assert pickle.loads(pickle.dumps(bound)).host_stride == strides
        assert eval(repr(bound)).host_stride == strides
    assert SpyreTensorLayout(*PADDED).layout(size).apply(1, 0, 0) == [{"m": 64}]
    with pytest.raises(TypeError, match="host_stride is that of a host_size"):
        SpyreTensorLayout(*PADDED, host_stride=strides)


def test_the_print_form_can_be_evaluated():
    fp16 = DataFormats.SEN169_FP16
    for l in [
        SpyreTensorLayout([5, 100, 150], "float16"),
        SpyreTensorLayout([64, 256], "float16", [1, 0]),
        SpyreTensorLayout([4, 40, 64], [64, 240, 1], fp16, ElementArrangement.FP32_TO_DL16),
        SpyreTensorLayout(device_size=[4, 40, 64], stride_map=[64, 240, 1], device_dtype=fp16, device_stride=[5120, 128, 1]),
        SpyreTensorLayout(device_size=[4, 6, 8, 8], stride_map=[384, 8, 48, 1], device_dtype=fp16, stick_dims=2),
    ]:
        assert eval(repr(l)) == eval(str(l)) == l
    by_name = SpyreTensorLayout(size=[5, 100, 150], dtype="float16", dim_order=[1, 0, 2])
    assert by_name == SpyreTensorLayout(host_size=[5, 100, 150], dtype="float16", dim_order=[1, 0, 2])
    assert by_name == SpyreTensorLayout([5, 100, 150], strides=[15000, 150, 1], dtype="float16", dim_order=[1, 0, 2])
    for wrong, match in [
        (dict(size=[4], dtype="float16", colour=1), "unknown argument `colour`"),
        (dict(device_size=[4, 64], stride_map=[64, 1]), "`device_dtype` is missing"),
        (dict(dtype="float16"), "`size` is missing"),
    ]:
        with pytest.raises(TypeError, match=match):
            SpyreTensorLayout(**wrong)
    with pytest.raises(TypeError, match="given twice"):
        SpyreTensorLayout([4], "float16", size=[4])


def test_gaps_and_sticks_of_several_dimensions():
    np = pytest.importorskip("numpy")
    gapped = SpyreTensorLayout([2, 5, 64], [64, 100, 1], DataFormats.SEN169_FP16, device_stride=[640, 128, 1])
    squares = SpyreTensorLayout([4, 6, 8, 8], [384, 8, 48, 1], DataFormats.SEN169_FP16, stick_dims=2)
    assert (gapped.device_stride, squares.num_stick_dims, squares.elems_per_stick()) == ([640, 128, 1], 2, 64)
    assert gapped.nbytes == 2 * 640 * 2
    for layout, size in [(gapped, (5, 100)), (squares, (32, 48))]:
        x = np.arange(size[0] * size[1], dtype=np.float16).reshape(size)
        image = zellige.relayout(x, None, layout.with_host(list(size)), fill=-1)
        assert np.array_equal(zellige.relayout(image, layout.with_host(list(size))), x)
    image = image.reshape(-1)
    assert [image[((r // 8 * 6 + c // 8) * 8 + r % 8) * 8 + c % 8] for r, c in [(9, 17), (31, 47)]] == [9 * 48 + 17, 31 * 48 + 47]
