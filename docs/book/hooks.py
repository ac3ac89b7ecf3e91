"""What MkDocs does not do by itself: links to files outside of docs/, drawings made at build time, and a first page."""

import os
import pathlib
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files, config):
    """Adds the drawings, which `docs/book/build` made outside of the sources."""
    drawn = os.environ.get("ZELLIGE_BOOK_DRAWINGS")
    if drawn is None:
        raise PluginError("run docs/book/build, which makes the drawings first")
    for path in sorted(pathlib.Path(drawn).glob("*.svg")):
        files.append(File.generated(config, f"book/drawings/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Names a file outside of docs/ instead of linking it, since the book has no copy. It has to exist."""
    docs = pathlib.Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent

    def name_outside(match):
        image, text, target = match[1], match[2], match[3]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = pathlib.Path(os.path.normpath(folder / target))
        if path.is_relative_to(docs):
            return match[0]
        if image or not path.exists():
            raise PluginError(f"{page.file.src_uri}: {target} leads nowhere")
        shown = path.relative_to(docs.parent)
        return text if str(shown) in text else f"{text} (`{shown}`)"

    # Drawings are wide, so a picture leads to itself in its own size.
    markdown = re.sub(r"^(!\[[^\]]*\]\((drawings/[^)]+)\))$", r"[\1](\2)", markdown, flags=re.MULTILINE)
    # Code is not prose: a link in it is an example of one.
    parts = re.split(r"(^```.*?^```[ \t]*$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(p if p.startswith("```") else LINK.sub(name_outside, p) for p in parts)


def on_post_build(config):
    """The site begins with the book."""
    first = pathlib.Path(config.site_dir) / "index.html"
    first.write_text('<!doctype html><title>Zellige</title><meta http-equiv="refresh" content="0; url=book/index.html">\n')
