#!/usr/bin/env python3
"""Checks proofs of the Merkle mountain range: a second verifier, written from docs/mmr.md alone.

usage: mmr_check.py FILE...        each FILE is a proof as JSON; `-` reads one from standard input
       mmr_check.py --self-test    compares with the hashes that docs/mmr.md pins
"""

import hashlib
import json
import sys

FIELDS = {
    "version", "rule", "network", "height", "block_hash", "leaves", "root", "leaf", "state", "path",
}
OF_UNSPENT = {"tx_hash", "output_index", "content"}


class Refused(Exception):
    """The document is no proof, or proves nothing."""


def h(data):
    return hashlib.blake2b(data, digest_size=32).digest()


def node(left, right):
    return h(b"\x01" + left + right)


def leaf_hash(txid, index, content):
    return h(b"\x00" + txid + index.to_bytes(4, "big") + h(content))


def tombstone(level=0):
    value = h(b"\x03")
    for _ in range(level):
        value = node(value, value)
    return value


def root_of(leaves, bag):
    return h(b"\x02" + leaves.to_bytes(8, "big") + bag)


def unhex(text, length=None):
    if not isinstance(text, str) or text != text.lower():
        raise Refused("not lower-case hexadecimal")
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise Refused("not hexadecimal") from error
    if data.hex() != text or (length is not None and len(data) != length):
        raise Refused("a hash has another length")
    return data


def number(value, bits):
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise Refused("a number is out of range")
    return value


def climb(value, leaf, leaves, path):
    if leaf >= leaves:
        raise Refused("there is no such leaf")
    height = (leaf ^ leaves).bit_length() - 1
    has_right = leaves & ((1 << height) - 1) != 0
    left = bin(leaves >> (height + 1)).count("1")
    if len(path) != height + has_right + left:
        raise Refused("the path has another length")
    rest = iter(path)
    for level in range(height):
        other = next(rest)
        value = node(other, value) if leaf >> level & 1 else node(value, other)
    if has_right:
        value = node(value, next(rest))
    for peak in rest:
        value = node(peak, value)
    return value


def check(proof):
    """Raises Refused unless the proof leads to the root it names."""
    expected = FIELDS
    if isinstance(proof, dict) and proof.get("state") == "unspent":
        expected = FIELDS | OF_UNSPENT
    if not isinstance(proof, dict) or set(proof) != expected:
        raise Refused("fields are missing or unknown")
    if proof["version"] != 1 or proof["rule"] != "tombstone":
        raise Refused("version or rule is not known")
    is_bitcoin = str(proof["network"]).startswith("bitcoin/")
    unhex(proof["block_hash"], 32)
    number(proof["height"], 32)
    leaf, leaves = number(proof["leaf"], 64), number(proof["leaves"], 64)
    if proof["state"] == "unspent":
        txid = unhex(proof["tx_hash"], 32)
        txid = txid[::-1] if is_bitcoin else txid
        value = leaf_hash(txid, number(proof["output_index"], 32), unhex(proof["content"]))
    elif proof["state"] == "spent":
        value = tombstone()
    else:
        raise Refused("the state is not known")
    if not isinstance(proof["path"], list):
        raise Refused("the path is no list")
    path = [unhex(one, 32) for one in proof["path"]]
    if root_of(leaves, climb(value, leaf, leaves, path)) != unhex(proof["root"], 32):
        raise Refused("the path does not lead to the root")


def root_by_definition(leaves):
    peaks, rest = [], leaves
    while rest:
        size = 1 << (len(rest).bit_length() - 1)
        row, rest = rest[:size], rest[size:]
        while len(row) > 1:
            row = [node(row[at], row[at + 1]) for at in range(0, len(row), 2)]
        peaks.append(row[0])
    bag = peaks.pop() if peaks else b""
    for peak in reversed(peaks):
        bag = node(peak, bag)
    return root_of(len(leaves), bag)


def self_test():
    leaves = [leaf_hash(bytes([i]) * 32, i, b"v" + bytes([i])) for i in range(11)]
    found = [root_by_definition([]), root_by_definition(leaves)]
    for spent in (0, 4, 5, 10):
        leaves[spent] = tombstone()
    found += [root_by_definition(leaves), tombstone(), tombstone(1), tombstone(20)]
    pinned = [
        "5c3cd7b696e23b2d800734e78972f333448955cdd73bedd7061bb3e8c6e4edd0",
        "ea4abb8f66a02bbd64bd4814468280a891c60e9fce14d018ffa6b5186678836d",
        "9069a038813ef91a87ddd2ee32aa4d21e0e2748ecd92da84c9a9ecb4ea390cad",
        "e88bd757ad5b9bedf372d8d3f0cf6c962a469db61a265f6418e1ffed86da29ec",
        "1749ef1c8f27e7d7861d17710cb4cb527d099a6e18f3240e73a46e285c1f2214",
        "cd2108bdda607cd6edf18c5378e1c593e56e020e28d1533908841f4348a5d430",
    ]
    for one, expected in zip(found, pinned, strict=True):
        if one.hex() != expected:
            raise Refused(f"{one.hex()} where docs/mmr.md has {expected}")


def main(names):
    if not names:
        print(__doc__, file=sys.stderr)
        return 2
    for name in names:
        try:
            if name == "--self-test":
                self_test()
            elif name == "-":
                check(json.load(sys.stdin))
            else:
                with open(name, encoding="utf-8") as file:
                    check(json.load(file))
        except (Refused, OSError, ValueError) as error:
            print(f"{name}: refused: {error}", file=sys.stderr)
            return 1
        print(f"{name}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
