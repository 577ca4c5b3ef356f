"""A wiki to measure on, made by a seed: the same pages each time."""

import random

# As in real wikis: front matter, headings, links, code, lists; English and Korean; some folders large, some small.
LARGE = 1000  # pages of the folder `large`, which is what is renamed as a whole

SYLLABLES = ["ba", "co", "den", "fi", "gra", "hel", "in", "jo", "ka", "lo", "mer", "no", "or", "pa", "que", "ri", "sto", "tu", "va", "wen"]
HANGUL = [chr(0xAC00 + 28 * n) for n in range(0, 399, 3)]


def vocabulary(rng, parts, words, longest):
    return ["".join(rng.choice(parts) for _ in range(rng.randint(1, longest))) for _ in range(words)]


def pick(rng, words):
    """A word, the first of them far more often than the last."""
    return words[int(len(words) * rng.random() ** 3)]


def prose(rng, words, links, count):
    out = []
    for n in range(count):
        out.append(pick(rng, words))
        if n % 12 == 11:
            out[-1] += "."
        if links and n % 40 == 20:
            out.append(links.pop())
    return " ".join(out)


def pages(count, seed=7):
    """Yields each page's path below the wiki and its text."""
    rng = random.Random(seed)
    english = vocabulary(rng, SYLLABLES, 6000, 4)
    korean = vocabulary(rng, HANGUL, 4000, 4)
    large = min(LARGE, count // 2)
    paths = [f"large/page-{n}.md" for n in range(large)]
    paths += [f"part-{n // 500}/topic-{n // 50 % 10}/page-{n}.md" for n in range(large, count)]
    for n, path in enumerate(paths):
        words = korean if n % 3 == 2 else english
        lang = "ko" if n % 3 == 2 else "en"
        near = lambda: paths[max(0, min(count - 1, int(rng.gauss(n, 200))))].removesuffix(".md")
        links = [f"[[{near()}]]" if rng.random() < 0.8 else f"[{pick(rng, words)}](/{near()}.md)" for _ in range(6)]
        out = [f"---\ntitle: {pick(rng, words)} {n}\nlang: {lang}\ntags: [t{n % 40}, {lang}]\n---\n\n# {pick(rng, words)} {n}\n"]
        for part in range(rng.randint(3, 7)):
            out.append(f"\n## {pick(rng, words)} {part}\n\n{prose(rng, words, links, rng.randint(40, 160))}\n")
            if part == 1:
                out.append(f"\n```rust\nfn {rng.choice(english)}_{n}() -> usize {{ {n} }}\n```\n")
        yield path, "".join(out)
