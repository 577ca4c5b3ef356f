//! The demo's small wiki.

/// Paths and texts of its pages. Two pages are linked to that do not exist.
pub(super) const PAGES: [(&str, &str); 8] = [
    (
        "wiki-output/index.md",
        "---\ntitle: Handbook\ntags: [start]\n---\n# Handbook\n\nHow the service works: [[outbox]], [[Architecture/stores|the stores]], \
         [drain](architecture/drain.md).\n한국어: [[용어집]].\n",
    ),
    (
        "wiki-output/outbox.md",
        "---\ntitle: The outbox\naliases: [queue]\ntags: [pattern]\n---\n# The outbox\n\nA producer puts one small job in the outbox and is done. \
         The [[drain]] does the rest.\n\n## Merging\n\nTwo jobs for the same page become one, because a job is a pointer and not a payload.\n",
    ),
    (
        "wiki-output/architecture/stores.md",
        "# Stores\n\n| store | answers |\n| --- | --- |\n| [[graph\\|Graph]] | who links to whom |\n| vectors | what is about this |\n| git | the page and its history |\n\n\
         ## Idempotence\n\nEvery step may be repeated; the second time changes nothing.\n",
    ),
    (
        "wiki-output/architecture/drain.md",
        "# Drain\n\nClaims a batch from the [[queue]], reads each page and brings it to every [[stores|store]].\n\n```rust\n// [[not a link]]\nwhile let Some(job) = \
         outbox.claim() { apply(job)?; }\n```\n\n## Backoff\n\nA page that fails waits 1, 3 and 9 seconds, then it becomes a dead letter.\n",
    ),
    (
        "wiki-output/architecture/graph.md",
        "---\ntags: [sqlite]\n---\n# Graph\n\nPages, tags and links, with placeholders for pages that nobody has written yet, such as [[Runbook]].\n",
    ),
    (
        "wiki-output/용어집.md",
        "---\ntitle: 용어집\ntags: [한국어]\n---\n# 용어집\n\n## 아웃박스\n\n아웃박스 패턴은 여러 저장소를 결국 일관되게 맞춘다. 자세한 내용은 [[outbox]] 참고.\n\n\
         ## 죽은 편지\n\n네 번 실패한 작업은 사람이 볼 때까지 쉰다. [[장애 대응]] 문서를 보라.\n",
    ),
    (
        "wiki-output/guides/검색.md",
        "# 검색\n\n한글은 두 글자씩 잘라서 색인하므로 조사가 붙어도 찾을 수 있다. [[용어집#아웃박스]]\n",
    ),
    (
        "wiki-output/guides/first-steps.md",
        "# First steps\n\nWrite a page, run the drain, search for it. See [the outbox](../outbox.md#merging).\n",
    ),
];

/// What the outbox page becomes when it is edited.
pub(super) const EDITED: (&str, &str) = (
    "wiki-output/outbox.md",
    "---\ntitle: The outbox\naliases: [queue]\ntags: [pattern]\n---\n# The outbox\n\nA producer appends a job to the outbox and walks away. The [[drain]] does the rest.\n\n\
     ## Merging\n\nTwo jobs for the same page become one.\n\n## Crash safety\n\nA lighthouse keeper never loses a ship: kill the worker anywhere, nothing is lost.\n",
);

/// The page that is renamed, and its new place.
pub(super) const RENAMED: (&str, &str) = (
    "wiki-output/guides/first-steps.md",
    "wiki-output/guides/getting-started.md",
);

/// The page that is deleted; two others link to it.
pub(super) const DELETED: &str = "wiki-output/architecture/stores.md";
