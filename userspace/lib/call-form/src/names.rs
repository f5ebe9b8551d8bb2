//! The names that a template's code reads, as far as they can be found without its syntax.

/// Whether the code of a template has a name in it: outside of its text, comments and strings, and not as an attribute.
pub fn reads(template: &str, name: &str) -> bool {
    let mut rest = template;
    while let Some((open, inside)) = next_tag(rest) {
        let (found, behind) = match open {
            "{#" => (false, inside.split_once("#}").map_or("", |(_, behind)| behind)),
            "{%" => code(inside, "%}", name),
            _ => code(inside, "}}", name),
        };
        if found {
            return true;
        }
        rest = behind;
    }
    false
}

/// The start of the next code or comment, and the text after it.
fn next_tag(text: &str) -> Option<(&str, &str)> {
    let at = text.match_indices('{').map(|(at, _)| at).find(|at| {
        let next = text.as_bytes().get(at.saturating_add(1));
        matches!(next, Some(b'{' | b'%' | b'#'))
    })?;
    text.get(at..)?.split_at_checked(2)
}

/// Whether code up to its end reads a name, and the text after its end.
fn code<'t>(text: &'t str, end: &str, name: &str) -> (bool, &'t str) {
    let (mut rest, mut before) = (text, ' ');
    loop {
        if let Some(behind) = rest.strip_prefix(end) {
            return (false, behind);
        }
        let Some(first) = rest.chars().next() else { return (false, "") };
        let length = match first {
            '"' | '\'' => string(rest, first),
            _ if is_part(first) => rest.find(|character| !is_part(character)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if token == name && before != '.' {
            return (true, behind);
        }
        if !first.is_whitespace() {
            before = first;
        }
        rest = behind;
    }
}

/// The length of a string that a text begins with.
fn string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let closing = text.char_indices().skip(1).find(|(_, character)| {
        let closes = *character == quote && !escaped;
        escaped = *character == '\\' && !escaped;
        closes
    });
    closing.map_or(text.len(), |(at, quote)| at.saturating_add(quote.len_utf8()))
}

/// Whether names have this character in them.
fn is_part(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::reads;

    #[test]
    fn names_are_found_in_code_only() {
        for template in [
            "{{ tools }}",
            "{%if tools%}",
            "a {b} {%- for tool in tools -%}",
            "{# no #}{{ 'a' ~ tools|tojson }}",
            "{{ '}}' }}{{ \"\\\"\" ~ tools }}",
            "{{ [x.y, tools] }}",
            "{% if tools",
        ] {
            assert!(reads(template, "tools"), "{template}");
        }
        for template in [
            "",
            "tools",
            "tools {{ x }} tools {",
            "{# {{ tools }} #}",
            "{{ 'tools' }}",
            "{{ \"}} tools\" }}",
            "{{ message.tools }}{{ message . tools }}",
            "{{ my_tools }}{{ toolset }}{{ tools2 }}{{ ütools }}",
            "{{ 'it\\'s tools",
            "{{",
        ] {
            assert!(!reads(template, "tools"), "{template}");
        }
    }
}
