#!/usr/bin/env python3
"""Makes forms.json: what jinja2, with the settings and functions that model files expect, makes of each form below, or
that it fails. A form is a template or, without braces, an expression whose value is printed.

    pip install jinja2
    tests/infer/make_forms.py
"""

import json
import os

from make_templates import HERE, environment

VALUES = {
    "s": "Hello, <b>World</b> & 'you' \"too\"",
    "t": "  a b\tc\n d  ",
    "u": "Straße ΣΑΣ éa\u0301 \u00ad\u200b😀",
    "lines": "one\n\ntwo\r\nthree",
    "path": "a/b/c.txt",
    "n": 7, "m": -7, "f": 2.5, "big": 12345678901234567890, "yes": True, "nothing": None,
    "xs": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3]], "empty": [],
    "d": {"b": 1, "a": [True, None, 1.0], "items": "x", "é": {"k": "v'"}},
    "people": [{"name": "Bo", "age": 5, "in": {"x": 2}}, {"name": "al", "age": 3, "in": {"x": 1}}, {"name": "Cy", "age": 5}],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi <a>"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": {"path": "a", "n": 1}}},
            {"id": "c2", "type": "function", "function": {"name": "list", "arguments": {}}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "read", "content": "x"},
    ],
}

EXPRESSIONS = r"""
s.upper() + s.lower() + s.title() + s.capitalize() + s.swapcase()
u.upper() ~ u.lower() ~ u.title() ~ u.casefold() ~ u.swapcase() ~ u.capitalize()
t.strip() ~ '|' ~ t.lstrip() ~ '|' ~ t.rstrip() ~ '|' ~ s.strip('Ho"')
s.startswith('Hello') ~ s.endswith('"') ~ s.startswith(('x', 'He')) ~ s.startswith('ello', 1) ~ s.startswith('', 99)
s.startswith(none)
path.split('/') ~ path.split('/', 1) ~ path.rsplit('/', 1) ~ path.rsplit('/') ~ t.split() ~ t.split(none, 1) ~ t.rsplit(none, 1)
path.split('')
path.split(sep='/', maxsplit=1)
lines.splitlines() ~ lines.splitlines(true) ~ ''.splitlines()
path.partition('/') ~ path.rpartition('/') ~ path.partition('x') ~ path.rpartition('x')
path.find('b') ~ path.find('z') ~ path.rfind('/') ~ path.index('b') ~ path.rindex('/') ~ path.find('a', 1) ~ path.find('', 9) ~ path.find('', 10)
path.index('z')
path.count('/') ~ path.count('') ~ 'aaaa'.count('aa') ~ path.count('/', 2)
path.removeprefix('a/') ~ path.removesuffix('.txt') ~ path.removeprefix('x')
'42'.zfill(5) ~ '-42'.zfill(5) ~ '+4'.zfill(1) ~ 'abc'.zfill(6)
'ab'.ljust(5) ~ '|' ~ 'ab'.rjust(5, '*') ~ '|' ~ 'ab'.center(5, '.') ~ 'abc'.center(6) ~ '|' ~ 'ab'.center(7, '-') ~ 'abcd'.center(7, '-')
'ab'.ljust(5, 'xx')
'a\tbc\td'.expandtabs(4) ~ 'a\tb'.expandtabs()
'-'.join(words) ~ ','.join('abc') ~ '-'.join({'x': 1, 'y': 2})
'-'.join([1])
'aXbX'.replace('X', 'yy') ~ 'aXbX'.replace('X', '', 1) ~ 'abc'.replace('', '.') ~ 'abc'.replace('', '.', 2)
'abc'.isalpha() ~ 'a1'.isalnum() ~ '12'.isdigit() ~ '1.2'.isdigit() ~ ''.isalpha() ~ ' '.isspace() ~ 'Ab'.istitle() ~ 'ab'.islower() ~ 'AB'.isupper() ~ 'a'.isascii() ~ '²'.isdigit() ~ '²'.isdecimal() ~ '½'.isnumeric() ~ '½'.isdigit()
'{} and {}'.format(1, 'x') ~ '{0}{1}{0}'.format('a', 'b') ~ '{x!r} {y:>5} {y:<5}|{y:^5}|'.format(x='q', y='z')
'{:.2f} {:5d} {:05d} {:,} {:x} {:#x} {:e} {:%} {:+}'.format(3.14159, 42, 42, 1234567, 255, 255, 12345.678, 0.25, 3)
'{a[b]} {c.x} {{}}'.format(a={'b': 1}, c={'x': 2})
'{:{w}}|'.format('a', w=4)
'{} {}'.format(1)
'%s' % 'x' ~ '%s %d' % ('a', 3) ~ '%r' % 'q' ~ '%5s|%-5s|%05d|%+d|% d' % ('a', 'b', 42, 3, 4)
'%.2f %e %g %g %g %x %X %o %#x %c%c %%' % (3.14159, 12345.678, 1e20, 0.0001, 123456789.0, 255, 255, 8, 255, 'a', 98)
'%(a)s-%(b)03d' % {'a': 'x', 'b': 5}
'%s' % [1, 2] ~ '%s' % {'a': 1} ~ '%s' % none ~ '%s' % true
'%*d|%-*d|%.*f' % (5, 42, 5, 42, 1, 2.25)
'%d' % 3.99 ~ '%.3s' % 'abcdef' ~ '%5.1f' % 2.25 ~ '%i' % true
'%d' % 'x'
'%s %s' % 'x'
'x' % 1
'%s'|format('a') ~ '%(x)s'|format(x=1) ~ '%s, %s'|format(1, [2])
['a'] ~ {'k': none} ~ (1,) ~ () ~ (1, 'x') ~ [1.0, true, none, "it's", 'q"', '\'"', 'a\nb\\c\t\x00é\u200b']
{'a': {'b': [1, {'c': ()}]}} ~ d
d.items() ~ d.keys() ~ d.values() ~ {}.items()
d['items'] ~ d.get('items') ~ d.get('zz') ~ d.get('zz', 5)
d.get('zz', default=3)
{}.copy() ~ {'a': 1}.copy() ~ [1].copy() ~ xs.count(1) ~ xs.index(2) ~ (1, 2, 1).count(1) ~ (1, 2).index(2)
xs.index(9)
xs.append(4)
d.update({'x': 1})
d.pop('a')
1e20 ~ ' ' ~ 1e16 ~ ' ' ~ 123456789012345.0 ~ ' ' ~ 1e15 ~ ' ' ~ 1e-4 ~ ' ' ~ 1e-5 ~ ' ' ~ 0.1 ~ ' ' ~ 100.0 ~ ' ' ~ 1.5e300 ~ ' ' ~ -0.0 ~ ' ' ~ 1_000 ~ ' ' ~ 0x1f ~ ' ' ~ 0b11 ~ ' ' ~ 0o17
1e20|int ~ 1e400
(0.1 + 0.2) ~ ' ' ~ 1 / 3 ~ ' ' ~ 7 // 2 ~ ' ' ~ -7 // 2 ~ ' ' ~ -7 % 3 ~ ' ' ~ 7 % -3 ~ ' ' ~ -7.5 % 2 ~ ' ' ~ 7.5 // 2 ~ ' ' ~ 2 ** 10 ~ ' ' ~ 2 ** -1 ~ ' ' ~ 2 ** 0.5 ~ ' ' ~ 4 / 2
[2 ** 3 ** 2, -2 ** 2, 2 * 3 + 4, 2 + 3 * 4, 10 - 3 - 2, 7 - 2 ~ 3 == 1]
[10 - 3 - 2, 2 ** 3 ** 2, -2 ** 2, 2 * 3 + 4, 2 + 3 * 4, 8 // 3 * 2, 8 / 4 / 2]
1 / 0
1 % 0
[true + true, true * 3, -true, +5, true / 2, 5 // true]
'a' + 1
1 + 'a'
[[1] + [2], (1,) + (2,), 'ab' * 2, [0] * 3, 2 * 'x', 'x' * -1, (1,) * 2, 1 + 2.5, 'a' ~ 1 + 0 if false else 'b']
[1] + (2,)
(1 < 2 < 3) ~ ' ' ~ (1 < 2 > 3) ~ ' ' ~ (1 == 1.0) ~ ' ' ~ (1 == true) ~ ' ' ~ ('a' < 'b') ~ ' ' ~ ([1, 2] < [1, 3]) ~ ' ' ~ (none == none) ~ ' ' ~ ([] == ()) ~ ' ' ~ ('1' == 1)
1 < 'a'
none < 1
(2 in xs) ~ ' ' ~ (9 in xs) ~ ' ' ~ ('a' in d) ~ ' ' ~ ('z' not in d) ~ ' ' ~ ('ell' in s) ~ ' ' ~ ('' in 'a') ~ ' ' ~ (1.0 in xs)
1 in 'a'
1 in 5
[] in d
not 1 == 2
not true or true
1 if true else 2
(1 if false) ~ 'x'
('a' if none else 'b') ~ (none or 'c') ~ (0 or []) ~ ('x' and 0) ~ (1 and 2)
xs[0] ~ xs[-1] ~ xs[1:] ~ xs[:-1] ~ xs[::-1] ~ xs[5:] ~ s[:5] ~ s[-3:] ~ s[::10] ~ s[1] ~ xs[-9:2] ~ (1, 2, 3)[1:]
xs[9] ~ 'x'
xs[9].a
s[99] ~ xs['a'] ~ d['zz'] ~ none.x ~ none['x'] ~ n.foo ~ s.foo
xs.0 ~ nested.0.1 ~ d.a.0
missing ~ missing|default('d') ~ d.zz|default('e') ~ ''|default('f') ~ ''|default('g', true) ~ none|default('h') ~ none|default('i', boolean=true)
missing.x
missing + 1
missing()
missing < 1
-missing
missing|length ~ missing|list ~ missing|join ~ missing|upper ~ missing|trim ~ missing|string ~ missing|first ~ missing|sort ~ missing|sum ~ missing|reverse|list ~ missing|items|list
missing == missing2 ~ ' ' ~ (missing == none) ~ ' ' ~ (missing in xs) ~ ' ' ~ (1 in missing) ~ (not missing)
missing in 'abc'
missing|int
missing|float
missing|abs
missing|round
missing|tojson
missing|indent
[missing] ~ '%s' % missing ~ '%r' % missing
xs|reverse|last
xs|urlencode
['a', ['b', 1]]|join('&')
'%d' % missing
d.zz is defined ~ d.a is defined ~ missing is undefined ~ missing is none ~ none is none
d.x.y is defined
missing is iterable ~ d.zz is iterable ~ none is iterable ~ 'a' is iterable ~ 1 is iterable ~ d is iterable ~ d.items() is iterable ~ range(3) is iterable
'a' is sequence ~ [] is sequence ~ {} is sequence ~ missing is sequence ~ 1 is sequence ~ () is sequence ~ d.items() is sequence ~ range(2) is sequence ~ (xs|map('string')) is sequence
'a' is string ~ 1 is string ~ 1 is number ~ 1.5 is number ~ true is number ~ '1' is number ~ 1 is integer ~ true is integer ~ 1.0 is integer ~ 1.0 is float ~ true is boolean ~ 1 is boolean ~ {} is mapping ~ [] is mapping ~ missing is mapping ~ missing is string
1 is odd ~ 2 is even ~ 9 is divisibleby 3 ~ 9 is divisibleby(2) ~ 'a' is lower ~ 'A' is upper ~ 1 is true ~ true is true ~ false is false ~ 0 is false
1 is eq 1 ~ 1 is equalto(2) ~ 1 is ne 2 ~ 1 is lt 2 ~ 2 is gt 1 ~ 1 is le 1 ~ 1 is ge 2 ~ 1 is in [1] ~ 'a' is in 'abc' ~ 1 is sameas 1 ~ true is sameas true ~ 1 is sameas true
range is callable ~ 'a' is callable ~ s.upper is callable ~ missing is callable
'upper' is filter ~ 'nope' is filter ~ 'odd' is test ~ 'nope' is test
1 is not none and 2 is not odd
'x' is nope
'x'|nope
2.5|round ~ ' ' ~ 3.5|round ~ ' ' ~ 0.5|round ~ ' ' ~ -2.5|round ~ ' ' ~ 2.675|round(2) ~ ' ' ~ 5|round ~ ' ' ~ 15|round(-1) ~ ' ' ~ 25|round(-1) ~ ' ' ~ 1234.5|round(-2) ~ ' ' ~ 2.1|round(method='ceil') ~ ' ' ~ 2.15|round(1, 'floor') ~ ' ' ~ 42|round(1, 'floor') ~ ' ' ~ true|round
'x'|round
'42'|int ~ '4.7'|int ~ 'x'|int ~ 'x'|int(5) ~ '0x1F'|int(0, 16) ~ '101'|int(base=2) ~ 3.9|int ~ -3.9|int ~ true|int ~ none|int ~ ' 5 '|int ~ '1_0'|int ~ []|int(7)
'4.5'|float ~ 'x'|float ~ 'x'|float(1.5) ~ 3|float ~ '1e3'|float ~ none|float ~ 'inf'|float
-5|abs ~ (-5)|abs ~ (-2.5)|abs ~ true|abs
s|upper ~ s|lower ~ s|capitalize ~ s|title ~ "it's (a) b-c"|title ~ 5|upper
t|trim ~ '|' ~ 'xxaxx'|trim('x') ~ 5|trim
s|replace('l', 'L') ~ s|replace('l', 'L', 1) ~ 'aaa'|replace('a', 'b', count=2)
'ab'|center(6) ~ '|'
lines|indent ~ '|' ~ lines|indent(2, true) ~ '|' ~ lines|indent(2, blank=true) ~ '|' ~ lines|indent('>>') ~ '|' ~ lines|indent(width=1, first=true)
'a long text of words'|truncate(10) ~ 'a long text of words'|truncate(10, true) ~ 'a long text'|truncate(9) ~ 'abcdefghij klm'|truncate(5, true, '…', 0) ~ 'abc def ghi'|truncate(8, end='', leeway=0)
'one two, three_four x-y'|wordcount
'a b&c/d?é'|urlencode ~ {'a': 1, 'b c': 'd/e'}|urlencode
s|e ~ s|escape
s|safe ~ s|string
d|tojson
d|tojson(indent=2)
d|tojson(2)
d|tojson(ensure_ascii=true) ~ '😀é'|tojson(ensure_ascii=true) ~ 'é'|tojson(ensure_ascii=false)
d|tojson(separators=(',', ':')) ~ d|tojson(separators=[',', ': '], indent=1)
{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true)
{1: 'a', none: 'b', true: 'c', 1.5: 'd'}|tojson
['a\n"\\/\x01\x7f', 1e20, 1.0, (1, 2), true, none, [], {}]|tojson
[[], {}]|tojson(indent=4) ~ [[1], {'a': []}]|tojson(indent='--') ~ []|tojson(indent=2) ~ [1]|tojson(indent=0)
big|tojson ~ big ~ (big + 1) ~ 1.0|tojson
range(3)|tojson
xs|sort ~ words|sort ~ words|sort(reverse=true) ~ words|sort(case_sensitive=true) ~ people|sort(attribute='name')|map(attribute='name')|list ~ people|sort(attribute='age,name')|map(attribute='name')|list ~ d|sort
people|sort(attribute='age', reverse=true)|map(attribute='name')|join(',')
[1, 'a']|sort
words|unique|list ~ [1, 1.0, 2, true]|unique|list ~ people|unique(attribute='age')|map(attribute='name')|list ~ words|unique(true)|list
xs|min ~ xs|max ~ words|min ~ words|max(case_sensitive=true) ~ people|max(attribute='age') ~ ([]|min)
xs|sum ~ nested|sum(start=[]) ~ people|sum(attribute='age') ~ people|sum('age', 10) ~ []|sum ~ [1.5, 2]|sum
['a']|sum
['a']|sum(start='')
xs|first ~ xs|last ~ s|first ~ s|last ~ ([]|first) ~ d|first ~ d|last
xs|join ~ xs|join(', ') ~ people|join(',', attribute='name') ~ s|join('-') ~ d|join('-') ~ [none, 1.5, [1]]|join('/')
xs|length ~ s|length ~ d|length ~ xs|count ~ u|length
5|length
xs|reverse|list ~ s|reverse ~ 'ab'|list ~ d|list ~ (1, 2)|list ~ xs|list
xs|map('string')|list ~ people|map(attribute='zz', default='-')|join ~ words|map('upper')|join ~ ['1', 'x']|map('int', default=9)|list ~ xs|map('round', precision=1)|list
people|map(attribute='in.x')|list
xs|map('nope')|list
none|select|list ~ none|map('upper')|list ~ 0|selectattr('a')|list
n[:2]
d[:1]
nothing[1:]
d.items()[:1]
xs|truncate(9) ~ 5|safe|length
5|truncate(3)
[1, 'x']|groupby('age')
['e\u0301', '\ufe0f', '\u200c']
xs|select('odd')|list ~ xs|reject('odd')|list ~ [0, 1, '']|select|list ~ xs|select('gt', 1)|list ~ xs|select('in', [1, 2])|list ~ xs|reject('==', 3)|list
people|selectattr('age', 'equalto', 5)|map(attribute='name')|join ~ people|rejectattr('in')|map(attribute='name')|join ~ people|selectattr('age', '>', 3)|list|length ~ people|selectattr('name', 'in', ['Bo'])|list|length
messages|selectattr('role', 'eq', 'user')|map(attribute='content')|first
messages|selectattr('role', 'equalto', 'zz')|list ~ (messages|selectattr('tool_calls', 'defined')|list|length)
[1, 2, 3, 4, 5]|batch(2)|list ~ [1, 2, 3]|batch(2, 0)|list ~ [1, 2, 3, 4, 5]|slice(3)|list ~ [1, 2, 3, 4]|slice(3, 'x')|list
people|groupby('age') ~ '' if false else (people|groupby('age')|map('first')|list)
people|groupby('age')|map(attribute='grouper')|list ~ people|groupby('age')|map(attribute='list')|map('length')|list ~ people|groupby('zz', default='-')|list|length
d|dictsort ~ {'b': 1, 'A': 2}|dictsort ~ {'b': 1, 'A': 2}|dictsort(true) ~ {'b': 2, 'a': 1}|dictsort(by='value') ~ {'b': 1, 'a': 2}|dictsort(reverse=true)
d|items|list ~ {}|items|list
d|attr('a') ~ s|attr('upper')()
dict(a=1, b=2) ~ dict({'x': 1}, y=2) ~ dict([('a', 1)])
range(3) ~ range(1, 4) ~ range(0, 6, 2) ~ range(3)|list ~ range(3, 0, -1)|list ~ range(3)[1] ~ range(5)|sum ~ range(0)|list
range(10000000)|list
1 is divisibleby 0
'a' 'b' "c"
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1]
{'a': 1, 'a': 2} ~ {1: 'x', 1.0: 'y'} ~ {(1, 2): 3}[(1, 2)]
{[]: 1}
(1) ~ (1,) ~ ((1, 2)) ~ (1, 2)[0]
1, 2
'\x41\u00e9\101\q\
z'
"a'b" ~ 'a"b' ~ 'a\'b'
xs|length > 2 and s is string and not d.zz
xs | sum + 1
xs|first|string + 'x'
-1|abs
2 is even == true
messages[1:]|length ~ messages[-1].role ~ messages[0]['content'][:2] ~ messages[1].content.split('<')[0]
messages[2].tool_calls[0].function.arguments|tojson ~ messages[2].tool_calls[0]['function']['arguments'] ~ messages[2].tool_calls|length
messages[2].tool_calls[0].function.arguments.items()|list ~ messages[2].tool_calls[0].function.arguments|dictsort
('tool_calls' in messages[2]) ~ ('tool_calls' in messages[1]) ~ (messages[1].tool_calls is defined) ~ (messages[1].tool_calls is not none)
strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %a %A %j %y %I %p %-d %%')
raise_exception('No: ' ~ n)
raise_exception()
namespace(a=1).a ~ namespace({'b': 2}).b ~ namespace().c
joiner('; ')() ~ cycler(1, 2).next()
loop is defined ~ nope is defined
s.nope()
5 5
(1
1 +
is
'abc
{{ 1
1 is odd is even
'a'|upper()|lower('x')
s|default(1, 2, 3)
'  x'.strip(chars=' ')
""".strip("\n").replace("\\\nz'", "\\\x01z'").split("\n")

TEMPLATES = r"""
a
{% if n > 5 %}
 yes
{% endif %}
b
---
  {% for x in xs %}
  - {{ x }}
  {% endfor %}
end
---
a  {%- if true -%}  b  {%- endif -%}  c {{- ' d ' -}} e
---
a
  {%+ if true %}x{% endif +%}
b
---
{# one -#}
  x {#- two #} y
 {# three #}
z
---
{% raw %}{{ a }} {% b %}{% endraw %}|{%- raw -%}  c  {%- endraw -%}  d
---
{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}
---
{% for x in empty %}a{% else %}none{% endfor %}{% for x in missing %}a{% else %}gone{% endfor %}
---
{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }} {% else %}none{% endfor %}
---
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'añ' %}[{{ c }}]{% endfor %}
---
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
---
{% for a, b in nested %}{{ a }}{{ b }}{% endfor %}
---
{% for x in 1, 2, 3 %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% if x == 3 %}{% break %}{% endif %}{% endfor %}
---
{% for x in none %}{% endfor %}
---
{% for x in 5 %}{% endfor %}
---
{% set x = 1 %}{% for i in xs %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
---
{% set ns = namespace(x=1, ys=[]) %}{% for i in xs %}{% set ns.x = ns.x + i %}{% set ns.ys = ns.ys + [i] %}{% endfor %}{{ ns.x }}{{ ns.ys }}
---
{% set d.x = 1 %}
---
{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set c = 1, 2 %}{{ c }}{% set (e, f) = [3, 4] %}{{ e }}
---
{% set x %}a {{ n }}{% endset %}[{{ x }}]{% set y | upper | replace('B', 'x') %}abc{% endset %}{{ y }}
---
{% if false %}a{% elif n == 7 %}b{% elif true %}c{% else %}d{% endif %}{% if none %}x{% else %}y{% endif %}
---
{% if false %}{% set q = 1 %}{% endif %}{{ q }}|{% if true %}{% set q = 2 %}{% endif %}{{ q }}
---
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set n = 9 %}{{ n }}{% endwith %}{{ a }}{{ n }}
---
{% macro m(a, b=2, c=n) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m(b=5, a=4) }}|{{ m() }}|{{ m.name }}
---
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
---
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}
---
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}
---
{% macro list(items) %}<{% for i in items %}{% if i is iterable %}{{ list(i) }}{% else %}{{ i }}{% endif %}{% endfor %}>{% endmacro %}{{ list([1, [2, [3]]]) }}
---
{% macro dialog(title) %}{{ title }}:{{ caller() }}{% endmacro %}{% call dialog('T') %}body {{ n }}{% endcall %}
---
{% macro each(xs) %}{% for x in xs %}{{ caller(x) }};{% endfor %}{% endmacro %}{% call(x) each(xs) %}{{ x * 2 }}{% endcall %}
---
{% macro late() %}{{ later }}{% endmacro %}{% set later = 3 %}{{ late() }}
---
{% filter upper %}abc {{ n }} {% endfilter %}{% filter replace('a', 'b') | upper %}aa{% endfilter %}
---
{% for item in [{'a': 1, 'c': [{'a': 2, 'c': []}]}] recursive %}{{ item.a }}{{ loop.depth }}[{{ loop(item.c) }}]{% endfor %}
---
{% for x in xs %}{{ loop([1]) }}{% endfor %}
---
{% for x in xs %}{% for y in nested %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
---
{% for x in xs %}{% set outer = loop %}{% for y in [1, 2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
---
{% generation %}a{% set z = 1 %}{{ z }}{% endgeneration %}[{{ z }}]
---
{% for m in messages %}{% if m.role == 'assistant' %}{%- generation -%}  <{{ m.content }}>  {%- endgeneration -%}{% else %}
{{ m.role }}{% endif %}{% endfor %}
---
{% block body %}in{% endblock %}{% block other scoped %}x{% endblock other %}
---
{% autoescape false %}{{ s }}{% endautoescape %}
---
{% print n, 'x' %}
---
{{ '{{' }}{{ '%}' }}{{ {'a': {'b': 1}}['a'] }}{{ {'a':{}}}}
---
{% set x = joiner('|') %}{% for i in xs %}{{ x() }}{{ i }}{% endfor %}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.current }}
---
{% set g = xs|map('string') %}{{ g|first }}{{ g|list }}{{ g|list }}
---
{% include 'x' %}
---
{% nope %}
---
{% if %}{% endif %}
---
{% for x in xs %}
---
{% endif %}
---
{{ }}
---
{% set true = 1 %}
---
{% set loop_messages = messages[1:] %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{{ message.role }} {% endfor %}
---
{%- for message in messages %}
    {%- if message.role == 'system' and loop.first %}
<<SYS>>{{ message.content | trim }}<</SYS>>
    {%- elif message.tool_calls %}
        {%- for call in message.tool_calls %}
            {%- set f = call.function if call.function else call %}
<call>{"name": "{{ f.name }}", "arguments": {{ f.arguments if f.arguments is string else f.arguments | tojson }}}</call>
        {%- endfor %}
    {%- else %}
[{{ message.role | upper }}] {{ message.content }}
    {%- endif %}
{%- endfor %}
---
{%- macro kind(p) -%}
{%- if p.type is string -%}{{ p.type }}{%- elif p.type is iterable -%}{{ p.type | join(' | ') }}{%- else -%}any{%- endif -%}
{%- endmacro -%}
{{ kind({'type': 'string'}) }},{{ kind({'type': ['a', 'b']}) }},{{ kind({}) }}
---
{% for message in messages %}{% if message.content is string and '<a>' in message.content %}A{% elif message.content == 'x' %}X{% elif message.content.startswith('Be') and message.content[:2] == 'Be' and message.content|length == 9 %}B{% endif %}{% endfor %}
---
{% set last = namespace(i=-1) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if last.i < 0 and m.role == 'user' and not (m.content.startswith('<r>') and m.content.endswith('</r>')) %}{% set last.i = index %}{% endif %}{% endfor %}{{ last.i }}
---
{% set content = '<think>x</think>  answer' %}{% if '</think>' in content %}{% set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}{{ thought }}|{{ content.split('</think>')[-1].lstrip('\n') }}{% endif %}
---
{% set tools = none %}{% if tools is not none and tools|length > 0 %}t{% else %}n{% endif %}{% if not tools is defined %}u{% endif %}
---
x

""".strip("\n").split("\n---\n")


def main():
    cases = []
    for form in EXPRESSIONS + TEMPLATES:
        form = form.replace("\x01", "\n")
        source = form if form in TEMPLATES else "{{ " + form + " }}"
        try:
            made = {"text": environment().from_string(source).render(**VALUES)}
        except Exception as error:  # Whatever is wrong, a template fails.
            made = {"fails": f"{type(error).__name__}: {error}"}
        cases.append({"source": source, **made})
    out = {"values": VALUES, "cases": cases}
    with open(os.path.join(HERE, "forms.json"), "w") as file:
        json.dump(out, file, indent=1, ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    main()
