//! The base of the reader: tokens, names, scopes.

use crate::ir::{
    DYNAMIC_SIZE, KtirAlias, KtirAttr, KtirBlock, KtirMemorySpace, KtirOp, KtirSourceSpan,
    KtirValue, KtirValueDef,
};
use crate::op::KtirOpKind;
use crate::types::KtirType;
use std::collections::HashMap;
use std::ops::Range;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::{Spanned, TextCursor};

pub(super) type Result<T> = std::result::Result<T, Diagnostic>;

/// The largest depth of nested regions and parentheses.
// The reader is recursive, and so are the verifier, the printer and the drop of what it reads. A
// hundred levels fit into the smallest stack that it runs on (a thread of a WebAssembly page), and
// real kernels nest fewer than ten.
const MAX_NESTING_DEPTH: usize = 100;

pub(super) struct KtirParser<'a> {
    pub(super) text: &'a str,
    pub(super) c: TextCursor<'a>,
    pub(super) aliases: Vec<(String, KtirAlias)>,
    /// The position of each alias in the list.
    pub(super) alias_index: HashMap<&'a str, usize>,
    /// Names and numbers of the affine expression being read.
    pub(super) leaves: usize,
    /// The memory space that the last type of a view names.
    pub(super) written_space: Option<KtirMemorySpace>,
    /// Values of the function being read.
    pub(super) values: Vec<KtirValueDef>,
    scopes: Vec<HashMap<String, KtirValue>>,
    depth: usize,
}

/// An operation without its results' names.
pub(super) struct KtirOpParts {
    pub(super) operands: Vec<KtirValue>,
    pub(super) results: Vec<KtirType>,
    pub(super) attrs: Vec<(String, KtirAttr)>,
    pub(super) regions: Vec<KtirBlock>,
}

impl KtirOpParts {
    pub(super) fn new(operands: Vec<KtirValue>, results: Vec<KtirType>) -> KtirOpParts {
        KtirOpParts { operands, results, attrs: Vec::new(), regions: Vec::new() }
    }

    pub(super) fn with_attr(mut self, name: &str, attr: KtirAttr) -> KtirOpParts {
        self.attrs.push((name.into(), attr));
        self
    }

    pub(super) fn with_attrs(mut self, attrs: Vec<(String, KtirAttr)>) -> KtirOpParts {
        self.attrs.extend(attrs);
        self
    }

    pub(super) fn with_region(mut self, region: KtirBlock) -> KtirOpParts {
        self.regions.push(region);
        self
    }
}

impl<'a> KtirParser<'a> {
    pub(super) fn new(text: &'a str) -> KtirParser<'a> {
        KtirParser {
            text,
            c: TextCursor::with_comments_from(text, "//"),
            aliases: Vec::new(),
            alias_index: HashMap::new(),
            leaves: 0,
            written_space: None,
            values: Vec::new(),
            scopes: Vec::new(),
            depth: 0,
        }
    }

    /// Runs `f` one nesting level deeper, up to the limit.
    pub(super) fn parse_deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_NESTING_DEPTH {
            let at = self.c.next_token_start();
            let message = format!("nested more than {MAX_NESTING_DEPTH} deep");
            return Err(Diagnostic::syntax_error(at..at, message, "too deep"));
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    /// Whether the text continues with exactly this.
    pub(super) fn is_next(&mut self, what: &str) -> bool {
        let at = self.c.next_token_start();
        self.text[at..].starts_with(what)
    }

    /// Consumes this token if it is the next one.
    pub(super) fn eat_token(&mut self, what: &str) -> bool {
        let at = self.c.next_token_start();
        // Tokens are compared as prefixes of the text: MLIR glues punctuation together (`->`, `>>`,
        // `)<`), and which token is meant depends on the place.
        let found = self.text[at..].starts_with(what);
        if found {
            self.c.skip_to_place(at + what.len());
        }
        found
    }

    pub(super) fn expect_token(&mut self, what: &str) -> Result<()> {
        if self.eat_token(what) {
            Ok(())
        } else {
            Err(self.c.refuse_next_token(&format!("`{what}`")))
        }
    }

    /// Consumes a whole word if it is the next one.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        self.c.eat_word(word)
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.c.eat_word(word) {
            Ok(())
        } else {
            Err(self.c.refuse_next_token(&format!("`{word}`")))
        }
    }

    /// Reads a list up to `close`, which is consumed.
    pub(super) fn parse_list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut out = Vec::new();
        while !self.eat_token(close) {
            if !out.is_empty() && !self.eat_token(",") {
                return Err(self.c.refuse_next_token(&format!("`,` or `{close}`")));
            }
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// Reads one or more items, separated by commas.
    pub(super) fn parse_one_or_more<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut out = vec![item(self)?];
        while self.eat_token(",") {
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// Reads the characters of a name after its sigil.
    pub(super) fn parse_name_after(&mut self, sigil: char, what: &str) -> Result<Spanned<&'a str>> {
        let start = self.c.next_token_start();
        let rest = &self.text[start..];
        if !rest.starts_with(sigil) {
            return Err(self.c.refuse_next_token(what));
        }
        let tail = &rest[1..];
        // The characters of a suffix-id in MLIR's grammar: letters, digits and `$._-`.
        let ok = |ch: char| ch.is_ascii_alphanumeric() || "_$.-".contains(ch);
        let mut len = tail.find(|ch| !ok(ch)).unwrap_or(tail.len());
        // A dash that begins an arrow does not belong to the name.
        if tail[..len].ends_with('-') && tail[len..].starts_with('>') {
            len -= 1;
        }
        if len == 0 {
            return Err(self.c.refuse_next_token(what));
        }
        let span = start..start + 1 + len;
        self.c.skip_to_place(span.end);
        Ok(Spanned { value: &tail[..len], span })
    }

    /// `%a` or `%g#1`, as the name of a value.
    pub(super) fn parse_value_name(&mut self) -> Result<Spanned<String>> {
        let name = self.parse_name_after('%', "a value, such as %a")?;
        let (mut value, mut span) = (name.value.to_string(), name.span);
        if self.text[span.end..].starts_with('#') {
            let tail = &self.text[span.end + 1..];
            let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
            // An operation has at most 1000 results, so six digits are no result number; they are
            // refused as text that does not belong here.
            if digits > 0 && digits < 6 {
                value = format!("{value}#{}", &tail[..digits]);
                span.end += 1 + digits;
                self.c.skip_to_place(span.end);
            }
        }
        Ok(Spanned { value, span })
    }

    /// Reads the name of a defined value.
    pub(super) fn parse_value(&mut self) -> Result<KtirValue> {
        Ok(self.parse_spanned_value()?.value)
    }

    pub(super) fn parse_spanned_value(&mut self) -> Result<Spanned<KtirValue>> {
        let name = self.parse_value_name()?;
        let value = self.look_up_value(&name.value, name.span.clone())?;
        Ok(Spanned { value, span: name.span })
    }

    pub(super) fn look_up_value(&self, name: &str, span: Range<usize>) -> Result<KtirValue> {
        if let Some(v) = self.scopes.iter().rev().find_map(|s| s.get(name)) {
            return Ok(*v);
        }
        let message = format!("`%{name}` is not defined here");
        let mut d = Diagnostic::syntax_error(span, message, "no such value").with_id("Z203");
        let near = self
            .scopes
            .iter()
            .flat_map(|s| s.keys())
            .filter(|k| k.len().max(name.len()) <= crate::op::LONGEST_NAME)
            .map(|k| (crate::op::edit_distance(name, k), k))
            .min()
            // A name of two letters is two slips away from every other one of that length, hence
            // the second condition.
            .filter(|(n, _)| *n <= 2.max(name.len() / 4) && *n < name.len());
        if let Some((_, near)) = near {
            d = d.with_help(format!("did you mean `%{near}`?"));
        }
        Err(d)
    }

    /// Adds a value without a name in any scope.
    pub(super) fn add_value(&mut self, name: &str, ty: KtirType) -> KtirValue {
        let value = KtirValue(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(KtirValueDef { name: name.into(), ty });
        value
    }

    /// Defines a value with a name in the current scope.
    pub(super) fn define_value(
        &mut self,
        name: &Spanned<String>,
        ty: KtirType,
    ) -> Result<KtirValue> {
        // MLIR allows no shadowing: a region sees the values around it, so one name would have two
        // meanings in it.
        if self.scopes.iter().any(|s| s.contains_key(&name.value)) {
            let message = format!("`%{}` is defined already", name.value);
            let d = Diagnostic::syntax_error(name.span.clone(), message, "a second definition");
            return Err(d
                .with_id("Z203")
                .with_help("every value has one definition; use another name"));
        }
        let value = self.add_value(&name.value, ty);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.value.clone(), value);
        }
        Ok(value)
    }

    /// Runs `f` in a scope of its own.
    pub(super) fn parse_scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(HashMap::new());
        let out = self.parse_deeper(f);
        self.scopes.pop();
        out
    }

    pub(super) fn value_type(&self, value: KtirValue) -> &KtirType {
        &self.values[value.index()].ty
    }

    /// Refuses a written type that differs from the type of the value.
    pub(super) fn check_written_type(
        &self,
        value: KtirValue,
        written: &Spanned<KtirType>,
    ) -> Result<()> {
        let have = self.value_type(value);
        let same = match (have, &written.value) {
            // Older texts write the groups elsewhere. A type that is written without groups
            // therefore matches a future with any groups.
            (KtirType::TileFuture(a, _), KtirType::TileFuture(b, None)) => a == b,
            // Sizes that are left out match any.
            (KtirType::AccessTile(a), KtirType::AccessTile(b)) => {
                let same = |(x, y): (&i64, &i64)| *y == DYNAMIC_SIZE || x == y;
                b[..] == [DYNAMIC_SIZE] || a.len() == b.len() && a.iter().zip(b).all(same)
            }
            (a, b) => a == b,
        };
        if same {
            return Ok(());
        }
        let name = &self.values[value.index()].name;
        let message = format!("`%{name}` is {have}, but {} is written here", written.value);
        Err(Diagnostic::syntax_error(written.span.clone(), message, "another type").with_id("Z201"))
    }

    /// Reads `: T, U`, which must be the types of these values.
    pub(super) fn parse_agreeing_types(&mut self, values: &[KtirValue]) -> Result<()> {
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                self.expect_token(",")?;
            }
            let ty = self.parse_type()?;
            self.check_written_type(*value, &ty)?;
        }
        Ok(())
    }

    pub(super) fn syntax_error<T>(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Result<T> {
        Err(Diagnostic::syntax_error(span, message, label))
    }

    /// Reads an operation with its results.
    pub(super) fn parse_op(&mut self) -> Result<KtirOp> {
        let start = self.c.next_token_start();
        let mut names: Vec<Spanned<String>> = Vec::new();
        if self.c.peek_char() == Some('%') {
            names = self.parse_one_or_more(Self::parse_result_names)?.concat();
            self.expect_token("=")?;
        }
        let at = self.c.next_token_start();
        let Some(word) = self.c.read_dotted_word() else {
            return Err(self.c.refuse_next_token("an operation, such as `arith.addf`"));
        };
        let Some(kind) = KtirOpKind::from_name(word.value) else {
            let message = format!("unknown operation `{}`", word.value);
            let mut d =
                Diagnostic::syntax_error(word.span, message, "not in the table").with_id("Z202");
            if let Some(near) = KtirOpKind::nearest_by_name(word.value) {
                d = d.with_help(format!("did you mean `{}`?", near.name()));
            }
            return Err(d);
        };
        let parts = self.parse_op_parts(kind)?;
        // The span begins at the operation's name: that is what a message about a broken rule
        // underlines.
        let span = at..self.c.last_token_end();
        let results = self.define_results(&names, parts.results, &(start..span.end), kind)?;
        Ok(KtirOp {
            kind,
            operands: parts.operands,
            results,
            attrs: parts.attrs,
            regions: parts.regions,
            span: KtirSourceSpan(span),
        })
    }

    fn define_results(
        &mut self,
        names: &[Spanned<String>],
        types: Vec<KtirType>,
        span: &Range<usize>,
        kind: KtirOpKind,
    ) -> Result<Vec<KtirValue>> {
        if names.is_empty() {
            // The text names none of the results.
            return Ok(types.into_iter().map(|ty| self.add_value("", ty)).collect());
        }
        if names.len() != types.len() {
            let (n, m) = (types.len(), names.len());
            let span = names.first().map_or(span.clone(), |f| f.span.start..names[m - 1].span.end);
            let s = if n == 1 { "" } else { "s" };
            let message = format!("`{}` has {n} result{s}, but {m} are named", kind.name());
            return self.syntax_error(span, message, "these names");
        }
        names.iter().zip(types).map(|(name, ty)| self.define_value(name, ty)).collect()
    }

    /// Reads `%a`, or `%g:2` for two results at once.
    fn parse_result_names(&mut self) -> Result<Vec<Spanned<String>>> {
        let name = self.parse_name_after('%', "the name of a result, such as %a")?;
        if !self.eat_token(":") {
            return Ok(vec![Spanned { value: name.value.into(), span: name.span }]);
        }
        let n = self.c.read_integer("the number of results")?;
        // Each result becomes a name in the scope, so an unbounded number would be memory for a few
        // digits of text.
        if !(1..=1000).contains(&n.value) {
            return self.syntax_error(
                n.span,
                "an operation has 1 to 1000 results",
                "not this many",
            );
        }
        let of = |i| Spanned { value: format!("{}#{i}", name.value), span: name.span.clone() };
        Ok((0..n.value).map(of).collect())
    }
}
