"""Measures kernels on a GPU: every .cu file of a folder that `zellige-cuda` wrote, as a ratio to a device copy of the same run.

    ZELLIGE_CANDIDATES=target/candidates cargo test -p zellige-cuda --test golden every_candidate -- --ignored
    python bench/gpu_kernels.py target/candidates

A file says how it is launched and how many bytes it moves in its first lines. With --check the kernels of
one case (NAME.00.cu, NAME.01.cu, ..) must leave the same bytes."""
import argparse, collections, pathlib, re, statistics
import cupy as cp

def median(f, n=9):
    for _ in range(2): f()
    times = []
    for _ in range(n):
        a, b = cp.cuda.Event(), cp.cuda.Event()
        a.record(); f(); b.record(); b.synchronize()
        times.append(cp.cuda.get_elapsed_time(a, b) / 1e3)
    return statistics.median(times)

def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('folder', type=pathlib.Path); p.add_argument('--only', default=''); p.add_argument('--check', action='store_true'); p.add_argument('--replace', default='', help='OLD=NEW: a change of the text of every kernel')
    args = p.parse_args()
    n = 1 << 30
    x = cp.random.randint(0, 256, n, dtype=cp.uint8); y = cp.empty_like(x)
    ceiling = 2 * n / median(lambda: cp.copyto(y, x)); print(f'copy {ceiling / 1e9:.0f} GB/s', flush=True); del x, y
    cases = collections.defaultdict(list)
    for f in sorted(args.folder.glob('*.cu')):
        if args.only in f.name: cases[f.name.split('.')[0]].append(f)
    pool = cp.random.randint(0, 256, (2 << 30) + 256, dtype=cp.uint8); out = cp.empty((2 << 30) + 256, dtype=cp.uint8)
    for name, files in cases.items():
        first, rows = None, []
        for f in files:
            text = f.read_text()
            if args.replace: text = text.replace(*args.replace.split('=', 1))
            read, src, written, dst = map(int, re.search(r'reads (\d+) bytes of (\d+), writes (\d+) of (\d+)', text).groups())
            launches = re.findall(r'// launch (\w+)<<<(\d+), (\d+)>>>', text)
            module = cp.RawModule(code=text, options=('-std=c++17',), backend='nvrtc')
            functions = [(module.get_function(k), int(g), int(b)) for k, g, b in launches]
            def go():
                for k, g, b in functions: k((g,), (b,), (pool, out))
            if args.check:
                out.fill(7); go(); got = out[:dst + 64].copy()
                same = first is None or bool((got == first).all()); first = got if first is None else first
            else: same = True
            ratio = (read + written) / median(go) / ceiling
            title = [l[3:] for l in text.splitlines() if re.match(r'// (Tiles|Squares|Copies|Fills|which|turned)', l)]
            estimate = re.search(r'estimate (\S+) (\w+)', text)
            mark = ('*' if estimate and estimate[2] == 'chosen' else ' ')
            model = (read + written) / float(estimate[1]) / ceiling if estimate and float(estimate[1]) else 0
            rows.append((ratio, model, mark, f.name, functions[0][0].num_regs, '' if same else 'DIFFERS ', ' '.join(title)))
        print(name)
        for ratio, model, mark, file, regs, differs, title in sorted(rows, reverse=True):
            print(f'  {mark} {ratio:.3f} model {model:.3f} regs {regs:3d} {differs}{file}  {title}', flush=True)

main()
