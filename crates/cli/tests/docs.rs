//! README.md and the book are true: every `$ command` in them prints what stands below it, byte for byte.
//!
//! `ZELLIGE_BLESS=1 cargo test --workspace --test docs` runs every command and writes what it prints; read the diff.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blessing() -> bool {
    std::env::var_os("ZELLIGE_BLESS").is_some()
}

/// README.md and the pages of the book, as paths from the root.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs/book"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| Path::new(name).extension().is_some_and(|e| e == "md"))
        .map(|name| Path::new("docs/book").join(name))
        .collect();
    pages.push("README.md".into());
    pages.sort();
    pages
}

/// A folder for the commands of one page, with the files that the pages speak of; it is removed at the end.
struct Workplace(PathBuf);

impl Workplace {
    fn new(name: &str) -> Workplace {
        let name = name.replace(['/', '.'], "-");
        let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("drawings")).unwrap();
        std::os::unix::fs::symlink(
            root().canonicalize().unwrap().join("examples"),
            path.join("examples"),
        )
        .unwrap();
        write_tensors(&path);
        Workplace(path)
    }

    /// What a command prints on both streams. How it ends is shown by a page where it matters, as `echo $?`.
    fn run(&self, command: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_zellige")).parent().unwrap().to_path_buf();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1\n{command}")]).env("PATH", path).current_dir(&self.0);
        // What a reader may have set, and what would change the output.
        let changing =
            ["COLUMNS", "SENCORES", "NO_COLOR", "ZELLIGE_PROFILE", "ZELLIGE_FP32", "ZELLIGE_INT64"];
        changing.iter().for_each(|name| {
            shell.env_remove(name);
        });
        // `sort` would put names in another order elsewhere.
        shell.env("LC_ALL", "C");
        // Not the reader's cache: a program from there does not say everything that a first compilation says.
        shell.env("ZELLIGE_CACHE", self.0.join("cache"));
        String::from_utf8(shell.output().expect("a shell").stdout).expect("UTF-8")
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `a.npy` and `b.npy`: 300 x 200 numbers of float16.
fn write_tensors(folder: &Path) {
    use zellige_files::{ContainerKind, NewTensor, write_tensor_file};
    // Multiples of a quarter from 1 on, which every 16-bit format holds.
    let numbers = |step: u16| (0..300 * 200u32).map(move |i| 0x3c00 + (i % 4) as u16 * step);
    for (name, step) in [("a", 0x100), ("b", 0x80)] {
        let bytes: Vec<u8> = numbers(step).flat_map(u16::to_le_bytes).collect();
        let tensor = NewTensor::new(name, zellige_float::Dtype::Float16, [300, 200]);
        let path = folder.join(format!("{name}.npy"));
        write_tensor_file(path, &[(tensor, &bytes)], ContainerKind::Npy).unwrap();
    }
}

/// A part of a page.
enum Piece<'p> {
    /// Everything that is not run.
    Prose(&'p str),
    /// A command with what the page says that it prints.
    Command { text: &'p str, shown: &'p str },
}

/// The blocks whose first line is a command, in parts; everything else as it stands.
fn split_page(page: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find("```text\n$ ").map(|at| at + "```text\n".len()) {
        let length = rest[start..].find("```").expect("every block ends");
        pieces.push(Piece::Prose(&rest[..start]));
        let mut block = &rest[start..start + length];
        while !block.is_empty() {
            // A command goes on in the next line after a backslash.
            let mut end = 0;
            loop {
                end += block[end..].find('\n').expect("a line ends") + 1;
                if !block[..end].ends_with("\\\n") {
                    break;
                }
            }
            let next = block[end..].find("\n$ ").map_or(block.len(), |at| end + at + 1);
            // An output without a line is followed by the next command at once.
            let next = if block[end..].starts_with("$ ") { end } else { next };
            pieces.push(Piece::Command { text: &block[..end], shown: &block[end..next] });
            block = &block[next..];
        }
        rest = &rest[start + length..];
    }
    pieces.push(Piece::Prose(rest));
    pieces
}

fn read_page(page: &Path) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// Runs the commands of a page in their order, and returns the page as it should be and how many there were.
fn run_page(page: &Path) -> (String, usize) {
    let text = read_page(page);
    let workplace = Workplace::new(&page.to_string_lossy());
    let (mut anew, mut count) = (String::new(), 0);
    for piece in split_page(&text) {
        match piece {
            Piece::Prose(prose) => anew.push_str(prose),
            Piece::Command { text, shown } => {
                count += 1;
                let printed = workplace.run(text.strip_prefix("$ ").expect("a command"));
                // An empty line before the next command is for the reader.
                let gap = if shown.ends_with("\n\n") { "\n" } else { "" };
                let _ = writeln!(anew, "{text}{}", printed.trim_end());
                if printed.trim().is_empty() {
                    anew.pop();
                }
                anew.push_str(gap);
            }
        }
    }
    // A picture of a page is drawn by a command of the page, so that it is a picture of what the page says.
    for picture in pictures(&text) {
        let drawn = fs::read_to_string(workplace.0.join(&picture));
        let drawn = drawn.unwrap_or_else(|e| panic!("{}: {picture}: {e}", page.display()));
        assert!(drawn.starts_with("<svg") && drawn.contains("</svg>"), "{picture} is no drawing");
    }
    (anew, count)
}

/// The drawings that a page shows.
fn pictures(text: &str) -> BTreeSet<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter(|link| link.starts_with("drawings/")).map(str::to_string).collect()
}

#[test]
fn every_command_prints_what_the_page_shows() {
    let pages = pages();
    assert!(pages.len() > 15, "{pages:?}");
    // Two pages at once: most commands wait for their process to start, and the longest page is a third of all.
    let next = std::sync::atomic::AtomicUsize::new(0);
    let stale = std::sync::Mutex::new(Vec::new());
    let commands = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        while let Some(page) = pages.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let (anew, count) = run_page(page);
            commands.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
            let text = read_page(page);
            if anew == text {
                continue;
            }
            if blessing() {
                fs::write(root().join(page), &anew).unwrap();
                continue;
            }
            let line = text.lines().zip(anew.lines()).position(|(a, b)| a != b).unwrap_or(0);
            let (shown, printed) = (text.lines().nth(line), anew.lines().nth(line));
            stale.lock().unwrap().push(format!(
                "{}:{}\n  shown   {shown:?}\n  printed {printed:?}",
                page.display(),
                line + 1
            ));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let stale = stale.into_inner().unwrap();
    let help = "ZELLIGE_BLESS=1 cargo test --workspace --test docs writes what is printed";
    assert!(stale.is_empty(), "{}\n{help}", stale.join("\n"));
    assert!(commands.into_inner() > 60);
}

/// No page is outside of the book, and no link leads nowhere. `docs/book/build` checks headings too.
#[test]
fn every_page_is_in_the_book_and_every_link_leads_to_a_file() {
    let book = fs::read_to_string(root().join("mkdocs.yml")).unwrap();
    for page in pages() {
        let folder = root().join(&page).parent().unwrap().to_path_buf();
        if let Ok(inside) = page.strip_prefix("docs") {
            assert!(
                book.contains(&inside.to_string_lossy().into_owned()),
                "{inside:?} is in no chapter"
            );
        }
        let text = read_page(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            let file = link.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") || file.starts_with("drawings/") {
                continue;
            }
            assert!(folder.join(file).exists(), "{}: {link} leads nowhere", page.display());
        }
    }
}

/// The page of the program runs an example of every command.
#[test]
fn every_command_of_the_program_has_an_example() {
    let workplace = Workplace::new("commands");
    let page = read_page(Path::new("docs/book/reference-program.md"));
    let pages: String = pages().iter().map(|p| read_page(p)).collect();
    let help = workplace.run("zellige --help");
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut checked = 0;
    for line in list.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap();
        if name == "help" {
            continue;
        }
        assert!(
            page.contains(&format!("`zellige {name}`")),
            "{name} is not on the page of the program"
        );
        assert!(pages.contains(&format!("zellige {name} ")), "no page runs `zellige {name}`");
        let help = workplace.run(&format!("zellige {name} --help"));
        let inner = help.contains("\nCommands:\n");
        assert!(inner || help.contains("Examples:\n"), "`zellige {name} --help` has no examples");
        checked += 1;
    }
    assert!(checked > 25, "{checked} commands");
}

/// The drawing in README.md is that of the run it speaks of; `ZELLIGE_BLESS=1` draws it anew.
#[test]
fn the_timeline_is_that_of_a_run() {
    let files = Workplace::new("timeline");
    let args = "eager add a.npy b.npy --layout default --layout stick=0 -o c.npy --timeline t.svg";
    let printed = files.run(&format!("zellige {args} || echo failed"));
    assert!(!printed.contains("failed"), "{printed}");
    let drawn = fs::read_to_string(files.0.join("t.svg")).unwrap();
    let shown = root().join("docs/trace.svg");
    if blessing() {
        fs::write(&shown, &drawn).unwrap();
    }
    assert!(drawn == fs::read_to_string(shown).unwrap(), "docs/trace.svg is another drawing");
}
