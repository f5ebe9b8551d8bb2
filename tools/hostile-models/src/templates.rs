//! Chat templates that are malformed, or endless.

use crate::End::{self, Answers, Fails, Refused};
use crate::parts::{Parts, TEMPLATE};

/// What follows each, so that the model counts as one that calls tools.
const TOOLS: &str = "{% if tools %}<tool_call>{% endif %}";

/// Names and models.
pub fn all() -> Vec<(&'static str, End, Parts)> {
    let with = |template: &str| Parts::talking().with_text(TEMPLATE, &format!("{template}{TOOLS}"));
    let loops = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
    let doubles = "{% set ns = namespace(x='abcdefgh') %}\
                   {% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    let speaks = "{% set line = 'x' * 90000 %}{% for i in range(90000) %}{{ line }}{% endfor %}";
    let chain = |part: &str, times: usize| format!("{{{{ 1{} }}}}", part.repeat(times));
    let nested = |open: &str, close: &str, times: usize| open.repeat(times) + "x" + &close.repeat(times);
    let deep = "cannot be read: ";
    let repeats = "makes a list of more than";
    let holds_itself = "{% set ns = namespace(x=[]) %}{% set ns.x = [ns, ns.x] %}\
                        {% for i in range(9999) %}{% set ns.x = [ns.x, ns.x, ns] %}{% endfor %}{{ ns.x }}";
    let itself = "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}";
    vec![
        ("template-syntax", Refused(deep), with("{% for %}")),
        ("template-loops", Fails("steps"), with(loops)),
        ("template-doubles", Fails("it makes a text of more than"), with(doubles)),
        ("template-speaks", Fails("it makes a text of more than"), with(speaks)),
        ("template-calls-itself", Fails("levels of blocks and macros"), with(itself)),
        ("template-counts", Fails(repeats), with("{{ [1, 2, 3, 4] * 9223372036854775807 }}")),
        ("template-repeats", Fails(repeats), with("{% set n = 1 %}{{ [n] * '9223372036854775807'|int }}")),
        ("template-repeats-by-name", Fails(repeats), with("{% for a in tools * 9999999999999 %}{% endfor %}")),
        ("template-holds-itself", Fails("it makes"), with(holds_itself)),
        ("template-refuses", Fails("I do not talk"), with("{{ raise_exception('I do not talk') }}")),
        ("template-sums", Answers, with(&chain(" + 1", 100_000))),
        ("template-filters", Answers, with(&chain("|abs", 100_000))),
        ("template-attributes", Fails("has no attribute"), with(&chain(".a", 100_000))),
        ("template-negates", Refused(deep), with(&format!("{{{{ {}1 }}}}", "not ".repeat(100_000)))),
        ("template-parentheses", Refused(deep), with(&nested("{{ ((((((((((", "", 100_000))),
        ("template-branches", Answers, with(&format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(100_000)))),
        ("template-blocks", Refused(deep), with(&nested("{% if 1 %}", "{% endif %}", 100_000))),
    ]
}
