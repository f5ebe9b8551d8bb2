//! Where in JSON a character is that comes: in which depth, and whether in a string.

/// Follows the nesting of JSON while it arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Takes a character; tells whether it is one of the structure, and no part of a string.
    pub fn take(&mut self, character: char) -> bool {
        if self.in_string {
            self.in_string = self.escaped || character != '"';
            self.escaped = character == '\\' && !self.escaped;
            return false;
        }
        match character {
            '"' => self.in_string = true,
            '{' | '[' => self.depth = self.depth.saturating_add(1),
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        character != '"'
    }

    /// How many objects and lists are open.
    pub fn depth(&self) -> u32 {
        self.depth
    }
}
