//! Limits of hostile templates.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

use capos_jinja::{Char, Error, ErrorKind, Host, Limits, Template, Value};
use proptest::prelude::*;

/// Those of chat templates.
const LIMITS: Limits = Limits { steps: 20_000_000, text: 2 << 20, depth: 112 };
/// A process of capOS has 256 KiB of stack, of which others need a part.
const STACK: usize = 160 << 10;

/// Reads and renders on a stack as small as that of a process of capOS.
fn render(source: &str) -> Result<Vec<Char>, Error> {
    let source = source.to_string();
    let rendered = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let values = vec![("n", Value::Int(1)), ("foreign", Value::foreign("<|x|>"))];
        let made = Template::new(&source)?.render(values, Host::default(), LIMITS)?;
        Ok(made.iter().map(|c| (c.get(), c.is_foreign())).collect::<Vec<_>>())
    });
    let made = rendered.unwrap().join().unwrap()?;
    Ok(made.into_iter().map(|(c, foreign)| if foreign { Char::foreign(c) } else { Char::own(c) }).collect())
}

fn fails(source: &str) -> Error {
    render(source).err().unwrap_or_else(|| panic!("{} was rendered", source.chars().take(200).collect::<String>()))
}

fn repeated(open: &str, middle: &str, close: &str, times: usize) -> String {
    open.repeat(times) + middle + &close.repeat(times)
}

#[test]
fn what_lies_in_each_other_too_deep_is_rejected_while_it_is_read() {
    for source in [
        format!("{{{{ {} }}}}", repeated("(", "1", ")", 100_000)),
        format!("{{{{ {} }}}}", repeated("[", "1", "]", 100_000)),
        format!("{{{{ {} }}}}", repeated("{1:", "1", "}", 100_000)),
        format!("{{{{ {} }}}}", repeated("n(", "1", ")", 100_000)),
        format!("{{{{ {} }}}}", repeated("n[", "1", "]", 100_000)),
        format!("{{{{ {} }}}}", repeated("n|d(", "1", ")", 100_000)),
        format!("{{{{ {} 1 }}}}", "not ".repeat(100_000)),
        format!("{{{{ {} 1 }}}}", "- ".repeat(100_000)),
        format!("{{{{ 1 {} }}}}", "if 1 else 1 ".repeat(100_000)),
        format!("{{{{ 1 {} }}}}", repeated("is in (1 ", "", ")", 100_000)),
        repeated("{% if 1 %}", "x", "{% endif %}", 100_000),
        repeated("{% for a in [1] %}", "x", "{% endfor %}", 100_000),
        repeated("{% macro m() %}", "x", "{% endmacro %}", 100_000),
        format!("{{% set {} = 1 %}}", repeated("(", "a", ")", 100_000)),
    ] {
        let error = fails(&source);
        assert_eq!(error.kind, ErrorKind::Syntax, "{error}");
        let told = error.to_string();
        assert!(told.contains("lie in each other") || told.contains("chain"), "{}: {told}", &source[..20]);
    }
}

#[test]
fn what_calls_itself_by_other_ways_is_bounded() {
    assert_eq!(fails("{{ 'a'|map(*['map']*5000)|list }}").kind, ErrorKind::Limit);
    let nested = "{% set ns=namespace(x=1) %}{% macro m() %}{% set ns.x = TAKES %}{% endmacro %}\
                  {% for i in range(20000) %}{% set _ = m(GIVES) %}{% endfor %}";
    for (takes, gives) in [("varargs", "ns.x"), ("kwargs", "a=ns.x")] {
        let error = fails(&nested.replace("TAKES", takes).replace("GIVES", gives));
        assert_eq!(error.kind, ErrorKind::Limit, "{error}");
    }
}

#[test]
fn names_of_what_is_undefined_cost_what_they_take() {
    let error = fails("{{ ([1]*1000000)|map(attribute='a'*1000000)|list|length }}");
    assert_eq!(error.kind, ErrorKind::Limit, "{error}");
}

#[test]
fn chains_may_be_long() {
    for source in [
        format!("{{{{ 1{} }}}}", " + 1".repeat(50_000)),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(5_000)),
        format!("{{{{ 1{} }}}}", "|abs".repeat(50_000)),
        format!("{{{{ 1{} }}}}", " and 1".repeat(50_000)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(50_000)),
        "{{ n }}{# #}".repeat(50_000),
        "{ ".repeat(500_000),
    ] {
        assert!(render(&source).is_ok(), "{}", source.chars().take(40).collect::<String>());
    }
}

#[test]
fn what_is_carried_out_is_bounded() {
    let itself =
        "{% macro again(n) %}{% if n %}{% for a in [1] %}{{ [(again(n + 1))] }}{% endfor %}{% endif %}{% endmacro %}";
    let list = "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    let twice =
        "{% set ns = namespace(x=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}";
    let text = "{% set ns = namespace(x='abcd') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    for (source, why) in [
        (format!("{itself}{{{{ again(1) }}}}"), "deeper than 112 levels"),
        ("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}".into(), "deeper than 112 levels"),
        (list.into(), "deeper than 200"),
        (twice.into(), "values and characters in it"),
        (text.into(), "it "),
        ("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}".into(), "steps"),
        ("{% set x = 'x' * 90000 %}{% for i in range(90000) %}{{ x }}{% endfor %}".into(), "a text of more than"),
        ("{{ [1, 2] * 9223372036854775807 }}".into(), "a list of more than"),
        ("{{ 'ab' * 9223372036854775807 }}".into(), "a text of more than"),
        ("{{ [[1]] * 1000000 * 1000 }}".into(), "a list of more than"),
        ("{{ 'a'.ljust(99999999999) }}".into(), "a text of more than"),
        ("{{ '%99999999999d' % 1 }}".into(), "a text of more than"),
        ("{{ '%.99999999999f' % 1 }}".into(), "a text of more than"),
        ("{{ '{:>99999999999}'.format(1) }}".into(), "a text of more than"),
        ("{{ ('x' * 9999999).replace('x', 'y' * 9999999) }}".into(), "a text of more than"),
        ("{{ ('x' * 9999999)|join('y' * 99) }}".into(), "a"),
        ("{{ [[[1]]]|tojson(indent=99999999) }}".into(), "a text of more than"),
        ("{{ 'a\nb'|indent(99999999999) }}".into(), "a text of more than"),
        ("{{ range(99999999999)|list }}".into(), "a range"),
        ("{{ [1]|batch(99999999999, 0)|list }}".into(), "a list of more than"),
        ("{% set x = 'a' * 1999999 %}{% for i in range(99999) %}{{ 'b' in x }}{% endfor %}".into(), "steps"),
        ("{% set x = ('a ' * 400000).split() %}{% for i in range(999) %}{{ x == x }}{% endfor %}".into(), "steps"),
    ] {
        let error = fails(&source);
        assert_eq!(error.kind, ErrorKind::Limit, "{source}: {error}");
        assert!(error.to_string().contains(why), "{source}: {error}");
    }
}

/// As deep as it may be, on the stack that there is.
/// A search, a comparison or a copy costs as many steps as it looks at, whichever operand is the long one.
#[test]
fn long_operands_cost_steps() {
    let text = "{% set x = 'a' * 1000000 %}";
    let list = "{% set l = ['b'] * 500000 %}";
    let keys = "{% set ns = namespace(d={}) %}{% for i in range(2000) %}\
                {% set ns.d = dict(ns.d, **{'a' * 1000 ~ i: i}) %}{% endfor %}";
    let many =
        "{% set ns = namespace(l=[]) %}{% for i in range(2000) %}{% set ns.l = ns.l + ['a' * 1000 ~ i] %}{% endfor %}";
    let cases = [
        (text, "{% for i in range(99999) %}{{ 'b'.find(x) }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ 'b'.count(x) }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ 'b'.split(x) }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ 'b'.rsplit(x) }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ 'b'.partition(x) }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ 'b'.startswith(x) }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ 'b'|replace(x, '') }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ 'b' is eq x }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ x in 'b' }}{% endfor %}"),
        (text, "{% for i in range(99999) %}{{ loop.changed(x) }}{% endfor %}"),
        (text, "{{ (['b'] * 99999)|map('replace', x, '')|list }}"),
        (many, "{{ ns.l|unique|list|length }}"),
        (many, "{% for i in range(99) %}{{ ns.l|sort|length }}{% endfor %}"),
        (list, "{% macro m() %}{{ varargs|length }}{% endmacro %}{% for i in range(99999) %}{{ m(*l) }}{% endfor %}"),
        (keys, "1"),
    ];
    for (head, body) in cases {
        let error = fails(&format!("{head}{body}"));
        assert!(error.to_string().contains("steps"), "{body}: {error}");
    }
}

#[test]
fn chains_of_conditions_do_not_lie_in_each_other() {
    let chain = "if 1 ".repeat(5000);
    assert_eq!(render(&format!("{{{{ 'x' {chain} }}}}")).unwrap().len(), 1);
    assert_eq!(render(&format!("{{{{ 'x' {chain} if 0 }}}}")).unwrap().len(), 0);
    let nested = repeated("(", "'x'", &format!("{chain})"), 12);
    assert_eq!(render(&format!("{{{{ {nested} }}}}")).unwrap().len(), 1);
}

#[test]
fn names_and_arguments_are_those_of_the_language() {
    let text = |source: &str| render(source).unwrap().iter().map(|c| c.get()).collect::<String>();
    assert_eq!(text("{% set recursive = 2 %}{{ recursive }}{{ (recursive, 1)|first }}"), "22");
    assert_eq!(text("{% for a in [1], recursive %}{{ a }}{% endfor %}"), "[1]");
    let macro_of_one = "{% macro m(a) %}{{ a }}{% endmacro %}";
    let repeated = fails(&format!("{macro_of_one}{{{{ m(a=1, a=2) }}}}")).to_string();
    assert!(repeated.contains("keyword argument repeated: a"), "{repeated}");
    let twice = fails(&format!("{macro_of_one}{{{{ m(a=1, **{{'a': 2}}) }}}}")).to_string();
    assert!(twice.contains("got multiple values for keyword argument 'a'"), "{twice}");
}

#[test]
fn the_deepest_values_are_compared_and_written() {
    let list = "{% set ns = namespace(x=[]) %}{% for i in range(198) %}{% set ns.x = [ns.x] %}{% endfor %}";
    for use_of_it in
        ["{{ ns.x }}", "{{ ns.x == ns.x }}", "{{ ns.x|tojson }}", "{{ ns.x in [ns.x] }}", "{{ [ns.x]|sort }}"]
    {
        assert!(render(&format!("{list}{use_of_it}")).is_ok(), "{use_of_it}");
    }
    for source in [repeated("{% if 1 %}", "x", "{% endif %}", 40), format!("{{{{ {} }}}}", repeated("(", "1", ")", 30))]
    {
        assert!(render(&source).is_ok());
    }
}

#[test]
fn numbers_that_grow_too_large_are_an_error() {
    for source in [
        "{{ 99999999999999999999999 * 99999999999999999999999 }}",
        "{{ 10 ** 99 }}",
        "{{ 2 ** 99999999999 }}",
        "{{ 2.0 ** 99999999 }}",
        "{{ 99999999999999999999999999999999999999999999 }}",
        "{{ -(0 - 2 ** 126) * 4 }}",
        "{{ 1 // 0 }}",
        "{{ 1 % 0.0 }}",
    ] {
        fails(source);
    }
    assert!(render("{{ '%d' % 1e300 }}").is_err());
}

/// What somebody else wrote stays theirs in whatever a template makes of it.
#[test]
fn foreign_characters_stay_foreign() {
    for source in [
        "{{ foreign }}",
        "{{ foreign|upper }}{{ foreign|title }}{{ foreign.lower() }}",
        "{{ foreign[1:4] ~ foreign[0] ~ foreign[::-1] }}",
        "{{ foreign|reverse }}{{ foreign|list|join }}{{ foreign|first }}{{ foreign.split('|')|join }}",
        "{{ foreign.partition('|')|join }}{{ foreign|trim('<') }}{{ foreign.removeprefix('<') }}",
        "{{ '%s' % foreign }}{{ '{}{:s}{!s}'.format(foreign, foreign, foreign) }}{{ '%(a)s' % {'a': foreign} }}",
        "{{ foreign.replace('x', foreign) }}{{ foreign|replace('|', '') }}{{ '--'|replace('-', foreign) }}",
        "{{ foreign|e }}{{ foreign|urlencode }}{{ foreign.expandtabs() }}{{ foreign|truncate(3, true, '', 0) }}",
        "{% for c in foreign %}{{ c }}{% endfor %}{% for a, b in {foreign: foreign}|items %}{{ a }}{{ b }}{% endfor %}",
        "{% macro m(a) %}{{ a }}{% for k in kwargs %}{{ k }}{% endfor %}{% endmacro %}{{ m(foreign, **{foreign: 1}) }}",
        "{{ dict(**{foreign: 1})|first }}{{ dict([(foreign, 1)])|list|first }}",
        "{% set x %}{{ foreign }}{% endset %}{{ x }}{% filter upper %}{{ foreign }}{% endfilter %}",
        "{{ foreign|format(1) if false else foreign }}{{ foreign|indent }}{{ [foreign, foreign]|max }}{{ foreign|string }}",
        "{{ ('%c' % 60) ~ ('%c' % foreign[0]) }}",
    ] {
        let made = render(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let own: String = made.iter().filter(|c| !c.is_foreign()).map(|c| c.get()).collect();
        assert!(!made.is_empty() && own.is_empty(), "{source}: {own:?}");
    }
    for (source, expected) in [
        ("{{ [foreign] }}{{ {foreign: 1} }}", "['']{'': 1}"),
        ("{{ foreign|tojson }}{{ {foreign: foreign}|tojson }}", "\"\"{\"\": \"\"}"),
        ("{{ '<' ~ foreign ~ '|>' }}", "<|>"),
        ("{{ foreign.center(9, '.') }}{{ foreign|center(9) }}", "....    "),
        ("{{ foreign|replace('x', 'y') }}", "y"),
        ("{{ '-'.join(foreign) }}", "----"),
    ] {
        let made = render(source).unwrap();
        let own: String = made.iter().filter(|c| !c.is_foreign()).map(|c| c.get()).collect();
        assert_eq!(own, expected, "{source}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// No source makes it panic, and what it makes of nothing foreign is its own.
    #[test]
    fn any_source_is_judged(
        source in "(\\{\\{|\\}\\}|\\{%-?|-?%\\}|\\{#|#\\}|for|in|if|else|endfor|endif|set|macro|endmacro|call|raw|endraw|is|not|n|foreign|\\[|\\]|\\(|\\)|\\{|\\}|x|\\.|,|:|=|==|\\||tojson|join|sort|groupby|format|split|rsplit|index|range|namespace| |'|%s|%|~|\\*|-|/|1|9|0\\.5|\n){0,24}",
    ) {
        if let Ok(template) = Template::new(&source) {
            let values = vec![("n", Value::list(vec![Value::Int(2), Value::own("b")])), ("x", Value::own("a b"))];
            let limits = Limits { steps: 20_000, text: 1 << 14, depth: 60 };
            if let Ok(made) = template.render(values, Host::default(), limits) {
                prop_assert!(made.iter().all(|c| !c.is_foreign()));
            }
        }
    }
}
