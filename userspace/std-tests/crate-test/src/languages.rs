//! Grammars, templates, and programs in other languages.

use serde_json::json;

#[test]
fn handlebars() {
    let template = "{{#each plants}}{{name}}: {{days}}\n{{/each}}";
    let data = json!({ "plants": [{ "name": "fern", "days": 3 }, { "name": "<i>", "days": 4 }] });
    let text = handlebars::Handlebars::new().render_template(template, &data).unwrap();
    assert_eq!(text, "fern: 3\n&lt;i&gt;: 4\n");
}

#[test]
fn llguidance() {
    use llguidance::toktrie::ApproximateTokEnv;
    use llguidance::{Matcher, ParserFactory, api::TopLevelGrammar};
    let tokens = ApproximateTokEnv::single_byte_env();
    let mut factory = ParserFactory::new_simple(&tokens).unwrap();
    factory.quiet();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
                         "additionalProperties": false });
    let grammar = TopLevelGrammar::from_json_schema(schema);
    let mut matcher = Matcher::new(factory.create_parser(grammar));
    let accepted = tokens.tokenize("{\"n\": 12}");
    assert_eq!(matcher.try_consume_tokens(&accepted).unwrap(), accepted.len());
    assert!(matcher.is_accepting().unwrap());
    matcher.reset().unwrap();
    let refused = tokens.tokenize("{\"m\": 12}");
    assert_eq!(matcher.try_consume_tokens(&refused).unwrap(), 2);
}

#[test]
fn minijinja() {
    let mut templates = minijinja::Environment::new();
    templates.add_template("list", "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }} {% endfor %}").unwrap();
    let text = templates.get_template("list").unwrap().render(minijinja::context!(xs => [1, 2, 3])).unwrap();
    assert_eq!(text, "1:2 2:3 ");
}

#[test]
fn nom() {
    use nom::character::complete::{char, digit1};
    use nom::{IResult, Parser, combinator::map_res, multi::separated_list1, sequence::delimited};
    fn list(text: &str) -> IResult<&str, Vec<u32>> {
        delimited(char('['), separated_list1(char(','), map_res(digit1, str::parse)), char(']')).parse(text)
    }
    assert_eq!(list("[1,22,333]x"), Ok(("x", vec![1, 22, 333])));
    assert!(list("[1,]").is_err());
}

#[test]
fn wasmi() {
    // (module (import "host" "add" (func (param i32))) (func (export "sum") (param i32)
    //   (loop (call 0 (local.get 0)) (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if 0 (local.get 0)))))
    let module = b"\0asm\x01\0\0\0\x01\x05\x01\x60\x01\x7f\0\x02\x0c\x01\x04host\x03add\0\0\x03\x02\x01\0\x07\x07\x01\
        \x03sum\0\x01\x0a\x16\x01\x14\0\x03\x40\x20\0\x10\0\x20\0\x41\x01\x6b\x21\0\x20\0\x0d\0\x0b\x0b";
    let engine = wasmi::Engine::default();
    let module = wasmi::Module::new(&engine, module).unwrap();
    let mut linker = wasmi::Linker::<i32>::new(&engine);
    linker.func_wrap("host", "add", |mut caller: wasmi::Caller<'_, i32>, n: i32| *caller.data_mut() += n).unwrap();
    let mut store = wasmi::Store::new(&engine, 0);
    let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
    let sum = instance.get_typed_func::<i32, ()>(&store, "sum").unwrap();
    sum.call(&mut store, 100).unwrap();
    assert_eq!(*store.data(), 5050);
}

#[test]
fn winnow() {
    use winnow::Parser;
    use winnow::ascii::{alpha1, dec_uint};
    use winnow::combinator::{separated, separated_pair};
    fn pairs<'a>(text: &mut &'a str) -> winnow::Result<Vec<(&'a str, u32)>> {
        separated(1.., separated_pair(alpha1, '=', dec_uint), ',').parse_next(text)
    }
    assert_eq!(pairs.parse("a=1,bc=22").unwrap(), [("a", 1), ("bc", 22)]);
    assert!(pairs.parse("a=1,b=").is_err());
}
