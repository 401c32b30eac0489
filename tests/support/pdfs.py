"""PDFs for tests, written by hand."""

from __future__ import annotations

from collections.abc import Sequence

#: A level from 0, a title, and a page from 0 (``None`` for no page).
Entry = tuple[int, str, int | None]


def pdf(
    pages: Sequence[Sequence[str]], outline: Sequence[Entry] = (), *, title: str = "", trailer: str = ""
) -> bytes:
    """A PDF of pages of lines. ``trailer`` is added to the trailer's dictionary."""
    objects: dict[int, str] = {}
    kids = [10 + 2 * number for number in range(len(pages))]
    first = 10 + 2 * len(pages)
    objects[1] = (
        f"<</Type/Catalog/Pages 2 0 R{'/Outlines 5 0 R' if outline else ''}"
        "/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>"
    )
    objects[2] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(f'{kid} 0 R' for kid in kids)}]>>"
    objects[3] = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    objects[4] = f"<</Title({title})>>"
    for kid, lines in zip(kids, pages, strict=True):
        shown = " ".join(f"({_escaped(line)}) Tj T*" for line in lines)
        text = f"BT /F 12 Tf 72 720 Td 14 TL {shown} ET"
        objects[kid] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {kid + 1} 0 R"
            "/Resources<</Font<</F 3 0 R>>>>>>"
        )
        objects[kid + 1] = f"<</Length {len(text.encode('cp1252'))}>>stream\n{text}\nendstream"
    objects |= _outline(outline, first, kids)
    return assemble(objects, trailer)


def assemble(objects: dict[int, str], trailer: str = "") -> bytes:
    """A PDF file of these objects. Object 1 is the catalog, and object 4 the information."""
    content = bytearray(b"%PDF-1.7\n")
    places = dict[int, int]()
    for number, value in sorted(objects.items()):
        places[number] = len(content)
        content += f"{number} 0 obj\n{value}\nendobj\n".encode("cp1252")
    start = len(content)
    size = max(objects) + 1
    content += f"xref\n0 {size}\n".encode()
    for number in range(size):
        content += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n"
    info = "/Info 4 0 R" if 4 in objects else ""
    content += f"trailer\n<</Size {size}/Root 1 0 R{info}{trailer}>>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(content)


def _outline(entries: Sequence[Entry], first: int, kids: Sequence[int]) -> dict[int, str]:
    """The objects of an outline: 5 is its root, and its entries are numbered from ``first``."""
    if not entries:
        return {}
    below: dict[int, list[int]] = {}
    parents: list[int] = []
    for number, (level, _, _) in enumerate(entries, start=first):
        parents = parents[:level]
        below.setdefault(parents[-1] if parents else 5, []).append(number)
        parents.append(number)
    found = {5: f"<</Type/Outlines/First {below[5][0]} 0 R/Last {below[5][-1]} 0 R>>"}
    for parent, numbers in below.items():
        for position, number in enumerate(numbers):
            _, title, page = entries[number - first]
            fields = f"/Title({_escaped(title)})/Parent {parent} 0 R"
            if page is not None:
                fields += f"/Dest[{kids[page]} 0 R/Fit]"
            if position + 1 < len(numbers):
                fields += f"/Next {numbers[position + 1]} 0 R"
            if inner := below.get(number):
                fields += f"/First {inner[0]} 0 R/Last {inner[-1]} 0 R"
            found[number] = f"<<{fields}>>"
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
