//! Text with indentation.

/// Lines of code being written.
#[derive(Default)]
pub struct Code {
    text: String,
    depth: usize,
}

impl Code {
    /// No lines yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One line, or none if it is empty.
    pub fn line(&mut self, line: &str) {
        if !line.is_empty() {
            for _ in 0..self.depth {
                self.text.push_str("    ");
            }
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    /// A line after which everything is one step further in.
    pub fn open(&mut self, line: &str) {
        self.line(line);
        self.depth += 1;
    }

    /// A line before which the indentation decreases by one step.
    pub fn close(&mut self, line: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(line);
    }

    /// A doc comment, if there is one.
    pub fn docs(&mut self, text: &str) {
        for line in text.trim_end().lines() {
            let line = line.trim_end();
            if line.is_empty() {
                self.line("///");
            } else {
                self.line(&format!("/// {line}"));
            }
        }
    }

    /// A doc comment, or the given text if the schema says nothing.
    pub fn docs_or(&mut self, text: &str, otherwise: &str) {
        self.docs(if text.trim().is_empty() { otherwise } else { text });
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_indented_and_docs_are_comments() {
        let mut code = Code::new();
        code.docs("One.\n\nTwo.\n");
        code.open("fn f() {");
        code.line("g();");
        code.close("}");
        assert_eq!(code.finish(), "/// One.\n///\n/// Two.\nfn f() {\n    g();\n}\n");
    }
}
