#!/usr/bin/env python3
"""Extracts the code of Markdown pages, to run it or to type-check it.

    blocks.py script PAGE OUT     writes OUT/page.sh, which runs the page's `run` blocks in order, and the programs it calls
    blocks.py types OUT PAGE...   writes every block of TypeScript, Go and Python below OUT as a separate module

The info string of a fence is a language and words: `sh run`, `ts run`, `go run background`, `python check`. `run` blocks
are executed, those of HTML in a browser (html.mjs). All other ts, go and python blocks are type-checked as fragments.
HTML comments, which readers do not see, add to that:

    <!-- setup bash commands that run at this place, like a block -->
    <!-- prelude ts
    code that is inserted before the next block of that language
    -->
    <!-- check bash commands that must succeed after the preceding block; $output is its output -->
    <!-- each like check, after each of the following programs up to another kind of block; for a program in the
    background, while it runs: $log is the file with its output -->
    <!-- needs ghost -->   only `docs-check live` runs the page
    <!-- needs vm -->      only `scripts/vm check` runs the page
"""

import pathlib
import re
import sys
import textwrap
from dataclasses import dataclass, field

LANGUAGES = {"ts": "ts", "typescript": "ts", "go": "go", "python": "python", "py": "python", "sh": "sh", "bash": "sh", "html": "html"}


@dataclass
class Block:
    page: pathlib.Path
    line: int
    language: str
    words: list
    code: str
    prelude: str = ""
    checks: list = field(default_factory=list)
    each: str = ""

    @property
    def runs(self):
        return "run" in self.words

    @property
    def name(self):
        stem = re.sub(r"[^a-z0-9]+", "_", str(self.page.with_suffix("")).lower()).strip("_")
        return f"{stem}_{self.line}"


def read(page, name=None):
    """Returns the blocks of a page, with their preludes and checks."""
    blocks, preludes, each = [], {}, ""
    lines = page.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"^(\s*)(`{3,})\s*([^`]*)$", line)
        if fence:
            indent, ticks, info = fence.group(1), fence.group(2), fence.group(3).split()
            start, body = at + 1, []
            at += 1
            while at < len(lines) and lines[at].strip() != ticks:
                body.append(lines[at][len(indent):] if lines[at].startswith(indent) else lines[at])
                at += 1
            language = LANGUAGES.get(info[0]) if info else None
            if language in (None, "sh"):
                each = ""
            if language:
                blocks.append(Block(name or page, start, language, info[1:], "\n".join(body) + "\n", preludes.pop(language, ""), each=each))
        elif line.startswith("<!-- "):
            comment = line
            while "-->" not in comment:
                at += 1
                comment += "\n" + lines[at]
            kind, rest = re.match(r"(\S+)\s*(.*)", comment[5:].rsplit("-->", 1)[0], re.S).groups()
            if kind == "check":
                if not blocks:
                    sys.exit(f"{page}:{at + 1}: a check without a preceding block")
                blocks[-1].checks.append(rest.strip())
            elif kind == "setup":
                blocks.append(Block(name or page, at + 1, "sh", ["run"], rest.strip() + "\n"))
            elif kind == "each":
                each = rest.strip()
            elif kind == "prelude":
                language, _, code = rest.partition("\n")
                preludes[LANGUAGES[language.strip()]] = code.rstrip() + "\n"
        at += 1
    return blocks


# --- programs -----------------------------------------------------------------

GO_IMPORTS = {
    "bufio": "bufio", "bytes": "bytes", "context": "context", "json": "encoding/json", "errors": "errors", "fmt": "fmt",
    "io": "io", "log": "log", "slog": "log/slog", "http": "net/http", "os": "os", "signal": "os/signal", "slices": "slices",
    "strings": "strings", "testing": "testing", "maps": "maps", "cmp": "cmp", "sync": "sync", "time": "time", "rand": "math/rand/v2", "strconv": "strconv", "filepath": "path/filepath",
    "stagedoor": "github.com/stagedoor/stagedoor/client/go",
}


def go_file(block):
    """Returns a Go block as a file that compiles: a program unchanged, a fragment inside a function."""
    code = block.prelude + block.code
    if re.search(r"^package ", code, re.M):
        return code
    declared = re.match(r"\s*((//[^\n]*\n)|(func|type|var|const)\b)", code) and re.search(r"^func \w", code, re.M)
    body = re.sub(r"//[^\n]*|`[^`]*`|\"(\\.|[^\"\n])*\"", "", code)
    used = sorted(path for name, path in GO_IMPORTS.items() if re.search(rf"(?<![\w.]){name}\.", body) or (not declared and name in ("context", "stagedoor")))
    imports = "".join(f"\t{'stagedoor ' if path.endswith('client/go') else ''}\"{path}\"\n" for path in used)
    head = f"package fragment\n\nimport (\n{imports})\n\n" if imports else "package fragment\n\n"
    where = f"//line {block.page}:{block.line + 1}\n"
    if declared:
        return head + where + code
    given = {"ctx": "ctx context.Context", "client": "client *stagedoor.Client", "accountID": "accountID string", "attemptID": "attemptID string", "jobID": "jobID string"}
    params = ", ".join(given.values())
    # The code is inside a closure, so that it may redeclare the given names and need not return an error.
    ending = "" if re.search(r"return [^\n]*\n\s*$", code) else "\treturn nil\n"
    return f"{head}func _({params}) error {{\n\t{', '.join('_' * len(given))} = {', '.join(given)}\n\treturn func() error {{\n{where}{code}{ending}}}()\n}}\n"


# Names that a fragment may use without declaring them. Each is declared if the fragment uses it and does not declare it.
TS_GIVEN = {
    "client": "declare const client: Stagedoor;",
    "account": 'declare const account: ReturnType<Stagedoor["account"]>;',
    "load": "declare function load(): Promise<string | undefined>;",
    "save": "declare function save(cursor: string | undefined): Promise<void>;",
    "reconnect": "declare function reconnect(accountId: string): Promise<void>;",
    "queue": "declare const queue: { add(event: unknown): Promise<void> };",
    "request": "declare const request: { headers: Headers };",
    "rawBody": "declare const rawBody: Uint8Array;",
} | {name: f"declare const {name}: string;" for name in ("accountId", "attemptId", "chatId", "jobId", "mediaId", "id", "text", "secret", "baseUrl", "apiKey")}


def ts_file(block):
    code = block.prelude + block.code
    head = ""
    if "@stagedoor/client" not in code:
        names = [n for n in ("Stagedoor", "StagedoorError", "ConnectionError", "WebhookVerificationError", "isProblem", "verifyWebhook") if n == "Stagedoor" or re.search(rf"\b{n}\b", code)]
        head += f'import {{ {", ".join(names)} }} from "@stagedoor/client";\n'
    elif not re.search(r"import[^;]*\bStagedoor\b[^;]*@stagedoor/client", code, re.S):
        head += 'import { Stagedoor } from "@stagedoor/client";\n'
    for name, declaration in TS_GIVEN.items():
        used = re.search(rf"(?<![.\w\"'`]){name}\b(?!\s*\??:)", re.sub(r"//.*", "", code))
        if used and not re.search(rf"(const|let|var|function)\s+{name}\b|(const|let)\s*[\[{{][^=\n]*\b{name}\b[^=\n]*=|[(,]\s*{name}\s*:|\(?\b{name}\)?\s*=>", code):
            head += declaration + "\n"
    return f"{head}// {block.page}:{block.line}\n{code}\nexport {{}};\n"


PY_GIVEN = {
    "client": "client: stagedoor.Stagedoor",
    "account": "account: stagedoor.Account",
    "saved_cursor": "saved_cursor: str | None",
    "save": "def save(cursor: str | None) -> None: ...",
    "request": "from typing import Any\nrequest: Any",
} | {name: f"{name}: str" for name in ("account_id", "attempt_id", "chat_id", "job_id", "media_id", "secret")}


def python_file(block):
    code = block.prelude + block.code
    head = "" if re.search(r"^(import stagedoor|from stagedoor)", code, re.M) and re.search(r"^\s*import stagedoor\b", code, re.M) else "import stagedoor\n"
    for name, declaration in PY_GIVEN.items():
        used = re.search(rf"(?<![.\w\"']){name}\b(?!\s*=[^=])", re.sub(r"#.*", "", code))
        if used and not re.search(rf"^\s*{name}\s*(:[^=]+)?=[^=]|for {name} in|def \w+\([^)]*\b{name}:|as {name}:", code, re.M):
            head += declaration + "\n"
    if re.search(r"^\s*(return|await|yield)\b", code, re.M) and not re.search(r"^\s*(async )?def ", code, re.M):
        code = "def fragment():\n" + textwrap.indent(code, "    ")
    return f"{head}# {block.page}:{block.line}\n{code}"


# --- output ---------------------------------------------------------------------


SUFFIXES = {"ts": "ts", "python": "py", "html": "html"}


def program(block, out):
    """Writes a `run` block as a program and returns its name for page.sh."""
    name = f"block{block.line}"
    code = block.prelude + block.code
    if block.language == "go":
        folder = out / "go" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.go").write_text(code)
    else:
        folder = out / block.language
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.{SUFFIXES[block.language]}").write_text(code + ("\nexport {};\n" if block.language == "ts" else ""))
    return name


def script(page, out):
    out.mkdir(parents=True, exist_ok=True)
    parts = ["# Generated from " + str(page) + " by scripts/docs-check: its blocks, in order.\n"]
    count = 0
    for block in read(page):
        if not block.runs:
            continue
        count += 1
        parts.append(f"begin {block.language} {block.line}\n")
        if block.language == "sh":
            parts.append("{\n" + block.prelude + block.code + "} >\"$out\"\nend\n")
        else:
            behind = "background" in block.words
            parts.append(f"{'background' if behind else 'foreground'} {block.language} {program(block, out)}\nend\n")
            if block.each:
                parts.append(f"checking {block.line}\n{block.each}\npassed\n")
            if behind:
                parts.append("stop\n")
        parts.extend(f"checking {block.line}\n{check}\npassed\n" for check in block.checks)
    if count:
        (out / "page.sh").write_text("".join(parts))
    print(count)


def types(out, pages):
    for language in ("ts", "go", "python"):
        (out / language).mkdir(parents=True, exist_ok=True)
    counts = {"ts": 0, "go": 0, "python": 0}
    for page in pages:
        for block in read(page, page.relative_to(out / "served") if page.is_relative_to(out / "served") else None):
            if block.language not in counts or "text" in block.words:
                continue
            counts[block.language] += 1
            if block.language == "go":
                text = go_file(block)
                package = block.name if "package main" in text or "//line" in text and "package fragment" not in text else "fragment_" + block.name.rsplit("_", 1)[0]
                folder = out / "go" / package
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"b{block.line}.go").write_text(text)
            elif block.language == "ts":
                (out / "ts" / f"{block.name}.ts").write_text(ts_file(block))
            else:
                (out / "python" / f"{block.name}.py").write_text(python_file(block))
    print(" ".join(f"{n} {language}" for language, n in counts.items()))


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "script":
        script(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    elif len(sys.argv) > 3 and sys.argv[1] == "types":
        types(pathlib.Path(sys.argv[2]), [pathlib.Path(p) for p in sys.argv[3:]])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
