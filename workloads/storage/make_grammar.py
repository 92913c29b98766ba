#!/usr/bin/env python3
"""Writes the grammar, for menhir, happy, ml-yacc or CUP, or the lexer, for ocamllex, alex, ml-lex
or JFlex, of a language with so many levels of operators: make_grammar.py TOOL LEVELS FILE."""

import re
import sys


def menhir(levels: int) -> str:
    each = range(levels)
    lines = ["%token EOF LEFT RIGHT SEMI COMMA ID NUM LET EQ FUN ARROW IF THEN ELSE MATCH BAR"]
    lines += [f"%token OPERATOR{i} PREFIX{i} KEYWORD{i}" for i in each]
    lines += ["%start <unit> main", "%%", "main: declarations EOF {()}"]
    lines += ["declarations: {()} | declarations declaration {()}"]
    lines += ["declaration: LET ID names EQ level0 SEMI {()}"]
    lines += [f"  | KEYWORD{i} ID LEFT list{i} RIGHT SEMI {{()}}" for i in each]
    lines += [f"list{i}: level{i} {{()}} | list{i} COMMA level{i} {{()}}" for i in each]
    lines += ["names: {()} | names ID {()}"]
    lines += [
        f"level{i}: level{i + 1} {{()}} | level{i} OPERATOR{i} level{i + 1} {{()}} "
        f"| PREFIX{i} level{i} {{()}}"
        for i in each
    ]
    last = f"level{levels}"
    lines += [f"{last}: ID {{()}} | NUM {{()}} | LEFT level0 RIGHT {{()}}"]
    lines += [f"  | {last} LEFT list0 RIGHT {{()}} | MATCH level0 cases SEMI {{()}}"]
    lines += ["  | IF level0 THEN level0 ELSE level0 SEMI {()} | FUN ID ARROW level0 SEMI {()}"]
    lines += ["cases: choice {()} | cases BAR choice {()}", "choice: ID ARROW level0 {()}"]
    return "\n".join(lines) + "\n"


def ocamllex(levels: int) -> str:
    lines = ["rule token = parse", "  | [' ' '\\t' '\\n']+ { token lexbuf }"]
    lines += ["  | ['0'-'9']+ ('.' ['0'-'9']*)? (['e' 'E'] ['+' '-']? ['0'-'9']+)? { 0 }"]
    lines += [f'  | "keyword{i}" | "prefix{i * 7 % 101}of" | "{i * 31 % 97}th" {{ {i + 1} }}'
              for i in range(levels)]  # fmt: skip
    lines += ["  | ['a'-'z' 'A'-'Z' '_'] ['a'-'z' 'A'-'Z' '_' '0'-'9']* { -1 }"]
    lines += ["  | '\"' ([^ '\"' '\\\\'] | '\\\\' _)* '\"' { -2 }", "  | eof { -3 }"]
    return "\n".join(lines) + "\n"


def happy(levels: int) -> str:
    head, _, rules = menhir(levels).partition("%%\n")
    tokens = [
        word for line in head.splitlines() for word in line.split()[1:] if line.startswith("%token")
    ]
    lines = ["{", "module Parser where", "}", "%name parse main", "%tokentype { Token }"]
    lines += ["%error { error }", "%token", *(f"  {token} {{ {token} }}" for token in tokens), "%%"]
    return "\n".join(lines) + "\n" + rules


def cup(levels: int) -> str:
    """The rules of ``menhir``, as CUP writes them."""
    header, _, rules = menhir(levels).partition("%%\n")
    tokens = [
        word
        for line in header.splitlines()
        if line.startswith("%token")
        for word in line.split()[1:]
        if word != "EOF"
    ]
    written = rules.replace("main: declarations EOF", "main: declarations").replace("{()}", "")
    productions: dict[str, str] = {}
    name = ""
    for line in written.splitlines():
        start, colon, rest = line.partition(":")
        if colon:
            name = start.strip()
        productions[name] = f"{productions.get(name, '')} {rest if colon else line}"
    lines = [f"terminal {', '.join(tokens)};", f"non terminal {', '.join(productions)};"]
    lines += ["start with main;"]
    lines += [f"{name} ::= {rules.strip()};" for name, rules in productions.items()]
    return "\n".join(lines) + "\n"


def jflex(levels: int) -> str:
    lines = ["%%", "%class Lexer", "%unicode", "%integer", "%%", r"[ \t\n]+ { }"]
    lines += [r"[0-9]+ (\. [0-9]*)? ([eE] [+-]? [0-9]+)? { return 0; }"]
    lines += [f'"keyword{i}" | "prefix{i * 7 % 101}of" | "{i * 31 % 97}th" {{ return {i + 1}; }}'
              for i in range(levels)]  # fmt: skip
    lines += ["[a-zA-Z_] [a-zA-Z_0-9]* { return -1; }", r"\" ([^\"\\] | \\ .)* \" { return -2; }"]
    return "\n".join(lines) + "\n"


def alex(levels: int) -> str:
    lines = ["{", "module Lexer where", "}", '%wrapper "basic"', "tokens :-", "  $white+ ;"]
    lines += [r"  [0-9]+ (\. [0-9]*)? ([eE] [\+\-]? [0-9]+)? { const 0 }"]
    lines += [f'  "keyword{i}" | "prefix{i * 7 % 101}of" | "{i * 31 % 97}th" {{ const {i + 1} }}'
              for i in range(levels)]  # fmt: skip
    lines += ["  [a-zA-Z_] [a-zA-Z_0-9]* { const (-1) }"]
    lines += [r"  \" ([^ \" \\] | \\ .)* \" { const (-2) }"]
    return "\n".join(lines) + "\n"


def ml_yacc(levels: int) -> str:
    rules = menhir(levels).split("%%\n", 1)[1]
    words = sorted(set(re.findall(r"\b[A-Z]+[0-9]*\b", rules)) - {"EOF"})
    names = re.findall(r"^(\w+):", rules, re.MULTILINE)
    lines = ["%%", "%name Language", "%pos int", "%eop EOF", "%noshift EOF", "%start main"]
    lines += [f"%term EOF | {' | '.join(words)}", f"%nonterm {' | '.join(names)}", "%%"]
    return "\n".join(lines) + "\n" + rules.replace("EOF ", "").replace("{()}", "()")


def ml_lex(levels: int) -> str:
    lines = ["type lexresult = int", "fun eof () = ~3", "%%", "letter=[a-zA-Z_];", "digit=[0-9];"]
    lines += ["%%", "[\\ \\t\\n]+ => (lex ());"]
    lines += ['{digit}+("."{digit}*)?([eE][+\\-]?{digit}+)? => (0);']
    lines += [f'"keyword{i}"|"prefix{i * 7 % 101}of"|"{i * 31 % 97}th" => ({i + 1});'
              for i in range(levels)]  # fmt: skip
    lines += ["{letter}({letter}|{digit})* => (~1);", '"\\""[^"]*"\\"" => (~2);']
    return "\n".join(lines) + "\n"


def main() -> None:
    make = {
        "menhir": menhir,
        "happy": happy,
        "ml-yacc": ml_yacc,
        "cup": cup,
        "ocamllex": ocamllex,
        "alex": alex,
        "ml-lex": ml_lex,
        "jflex": jflex,
    }[sys.argv[1]]
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        file.write(make(int(sys.argv[2])))


if __name__ == "__main__":
    main()
