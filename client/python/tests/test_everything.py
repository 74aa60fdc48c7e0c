"""Compares the library with openapi.json: every method, operation and kind of event. Also tests types and packaging."""

from __future__ import annotations

import importlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest
import zipfile
from typing import Any

from support import HERE, ROOT, Answer, Asked, Case, Server

from stagedoor import Stagedoor, events, params, problems

DOCUMENT: dict[str, Any] = json.loads((ROOT / "openapi" / "openapi.json").read_text())
OPERATIONS: list[tuple[str, str, dict[str, Any]]] = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name)


class Methods(Case):
    def setUp(self) -> None:
        self.server = self.serve(by=lambda asked: Answer(200, {"result": {"items": [], "nextCursor": None}}))
        self.account = self.client(self.server).account("acct_1")

    def test_every_method_is_called_as_documented(self) -> None:
        methods = {(o["x-sdk"]["resource"], o["x-sdk"]["method"]): o for m, _, o in OPERATIONS if "x-sdk" in o and m == "POST"}
        self.assertEqual(len(methods), 250)
        for (resource, method), operation in methods.items():
            with self.subTest(f"{resource}.{method}"):
                content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                arguments = content.get("example") or {}
                given = {snake(name): value for name, value in arguments.items()}
                given = {name + "_" if name in ("from", "as") else name: value for name, value in given.items()}
                getattr(getattr(self.account, snake(resource)), snake(method))(**given)
                asked = self.server.asked.pop()
                self.assertEqual(asked.path, f"/v1/accounts/acct_1/{resource}/{method}")
                if operation["x-sdk"]["access"] == "read":
                    self.assertEqual(asked.method, "GET")
                    self.assertEqual(set(asked.query), set(arguments))
                    self.assertNotIn("idempotency-key", asked.headers)
                else:
                    self.assertEqual((asked.method, asked.json()), ("POST", arguments))
                    self.assertIn("idempotency-key", asked.headers)
                self.check_arguments(resource, method, content)

    def check_arguments(self, resource: str, method: str, content: dict[str, Any]) -> None:
        """Check that the typed arguments of a method are those of the document."""
        forms = content.get("schema", {}).get("oneOf") or [{}]
        properties: dict[str, Any] = forms[0].get("properties", {})
        call = getattr(type(getattr(self.account, snake(resource))), snake(method))
        unpack = call.__annotations__.get("params", "")
        typed = getattr(params, unpack.removeprefix("Unpack[").removesuffix("]"), None)
        names = {name.rstrip("_") for name in typed.__annotations__} if typed else set()
        self.assertEqual(names, {snake(name) for name in properties})

    def test_lists_can_be_iterated(self) -> None:
        for _, _, operation in OPERATIONS:
            sdk = operation.get("x-sdk", {})
            if sdk.get("paginated"):
                resource = getattr(self.account, snake(sdk["resource"]))
                self.assertEqual(list(getattr(resource, snake(sdk["method"]) + "_all")()), [])


class Operations(Case):
    #: Operations that are written by hand because they stream or transfer files, and where they are.
    BY_HAND = {
        "streamAttempt": "connect.watch",
        "getAttemptQR": "connect.get_qr",
        "fetchMedia": "account.media.fetch",
        "uploadMedia": "account.media.upload",
        "uploadMediaPart": "account.media.upload_part",
        "downloadMedia": "account.media.download",
        "getJobResult": "jobs.get_result",
        "putJobItems": "jobs.put_items",
    }
    #: Operations that are in no library: the general form of all methods, one for browsers, and those that refuse keys.
    EXCLUDED = {
        "readMethod", "callMethod", "preflightEvents", "deleteOrg", "restoreOrg", "grantSupportAccess", "revokeSupportAccess"
    }

    def test_every_operation_exists(self) -> None:
        server = self.serve(by=self.anything)
        client = self.client(server)
        reached = {self.ask(server, group, name) for group, name in self.generated(client)}
        for method, path, operation in OPERATIONS:
            identity = operation["operationId"]
            if "x-sdk" in operation or identity in self.EXCLUDED:
                continue
            if identity in self.BY_HAND:
                *path_to, name = self.BY_HAND[identity].split(".")
                target: Any = client
                for step in path_to:
                    target = target.account("acct_1") if step == "account" else getattr(target, step)
                self.assertTrue(callable(getattr(target, name)), identity)
                continue
            shape = "/".join("{}" if part.startswith("{") else part for part in path.split("/"))
            self.assertIn((method, shape), reached, identity)

    @staticmethod
    def anything(asked: Asked) -> Answer:
        class Whatever(dict[str, Any]):
            pass

        members = ("account", "webhook", "delivery", "event", "job", "key", "session", "attempt", "me", "log", "member")
        return Answer(200, Whatever({name: {} for name in members}))

    @staticmethod
    def generated(client: Stagedoor) -> list[tuple[Any, str]]:
        groups = [getattr(client, name) for name, value in vars(type(client).__mro__[1]).items() if hasattr(value, "func")]
        return [
            (group, name)
            for group in groups
            for name, value in vars(importlib.import_module(type(group).__module__).__dict__[type(group).__name__]).items()
            if callable(value) and not name.startswith("_") and not name.endswith("_all")
        ] + [
            (group, name)
            for group in (client.connect, client.jobs)  # generated groups with methods that are written by hand
            for name in vars(type(group).__mro__[1])
            if not name.startswith("_") and not name.endswith("_all")
        ]

    def ask(self, server: Server, group: Any, name: str) -> tuple[str, str]:
        method = getattr(group, name)
        ids = [a for a in method.__code__.co_varnames[1 : method.__code__.co_argcount]]
        if name.endswith("_all") or name in ("watch", "wait_for", "get_qr", "get_result"):
            return ("", "")
        try:
            method(*["ID" for _ in ids])
        except KeyError:
            pass  # The fake response lacks the member to unwrap; only the request matters.
        asked = server.asked[-1]
        return asked.method, "/".join("{}" if part == "ID" else part for part in asked.path.split("/"))


class Types(unittest.TestCase):
    def test_kinds_and_codes(self) -> None:
        kinds = typing.get_args(events.EventKind)
        self.assertEqual(len(kinds), 80)
        self.assertEqual(len(typing.get_args(events.Event)), len(kinds))
        codes = {code for _, _, operation in OPERATIONS for code in operation.get("x-problems", [])}
        self.assertLessEqual(codes, set(typing.get_args(problems.ProblemCode)))

    def test_importing_is_cheap(self) -> None:
        heavy = {"stagedoor.types", "stagedoor.params", "stagedoor.events", "http.client", "ssl", "uuid", "dataclasses"}
        script = "import sys, stagedoor; print(' '.join(sys.modules))"
        modules = subprocess.run(
            [sys.executable, "-S", "-c", script], cwd=HERE.parent, capture_output=True, text=True, check=True
        ).stdout.split()
        self.assertEqual(heavy & set(modules), set())


class Packaging(unittest.TestCase):
    def test_wheel_is_complete(self) -> None:
        version = (HERE.parent.parent / "VERSION").read_text().strip()
        with tempfile.TemporaryDirectory() as folder:
            script = f"import packaging_backend as b; print(b.build_wheel({folder!r}), b.build_sdist({folder!r}))"
            built = subprocess.run(
                [sys.executable, "-c", script], cwd=HERE.parent, capture_output=True, text=True, check=True
            ).stdout.split()
            self.assertEqual(built, [f"stagedoor-{version}-py3-none-any.whl", f"stagedoor-{version}.tar.gz"])
            use = "import stagedoor, stagedoor.types; print(stagedoor.__version__, stagedoor.__file__)"
            wheel = str(pathlib.Path(folder) / built[0])
            said = subprocess.run(
                [sys.executable, "-c", use], cwd=folder, env={"PYTHONPATH": wheel}, capture_output=True, text=True, check=True
            ).stdout
            self.assertTrue(said.startswith(f"{version} ") and wheel in said, said)
            with zipfile.ZipFile(wheel) as archive:
                self.assertIn("stagedoor/py.typed", archive.namelist())


@unittest.skipUnless(shutil.which("mypy"), "mypy is not installed")
class TypeChecking(unittest.TestCase):
    def mypy(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["mypy", *arguments], cwd=HERE.parent, capture_output=True, text=True)

    def test_library_passes_strict_mypy(self) -> None:
        checked = self.mypy()
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_mypy_finds_mistakes_and_narrows_events(self) -> None:
        program = (HERE / "typed.py.txt").read_text()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(program)
            said = self.mypy("--no-error-summary", str(path)).stdout.splitlines()
        found: dict[int, str] = {}
        for line in said:
            number = int(line.split(":")[1])
            found[number] = found.get(number, "") + line.partition(": ")[2]
        for number, line in enumerate(program.splitlines(), 1):
            _, mark, want = line.partition("  # says: ")
            with self.subTest(line=line.strip()):
                self.assertEqual(bool(mark), number in found, found.get(number))
                self.assertIn(want, found.get(number, ""))


if __name__ == "__main__":
    unittest.main()
