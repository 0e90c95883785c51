#!/usr/bin/env python3
"""Checks proofs of a UTXO set's Merkle mountain range. Follows docs/mmr.md step by step.

usage: mmr_check.py [--root HEX] [--keep-going] PROOF...
       mmr_check.py --self-test

PROOF is a file with a proof as JSON or as CBOR; `-` is standard input. With --root the proof must
lead to this root, which you have from somebody you trust. --keep-going checks the other files after
a refused one. --self-test compares with the hashes that the page pins.

Ends with 0 if every proof holds, with 1 if one is refused, with 2 if it is called wrongly.
"""

import hashlib
import json
import sys
from dataclasses import dataclass, field

NAMES = ("version", "rule", "network", "height", "block_hash", "leaves", "root", "leaf", "state")
NETWORKS = (
    "bitcoin/mainnet",
    "bitcoin/testnet3",
    "bitcoin/testnet4",
    "bitcoin/signet",
    "bitcoin/regtest",
    "cardano/mainnet",
    "cardano/preprod",
    "cardano/preview",
    "cardano/devnet",
)
NAMES_OF_UNSPENT = ("tx_hash", "output_index", "content")
BYTES_MAX = 1 << 20
PATH_MAX = 128


class Refused(Exception):
    """Why a document proves nothing."""


def need(condition, reason):
    if not condition:
        raise Refused(reason)


# --- "Hashes" ---------------------------------------------------------------------------------


def H(*parts):
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


def unspent_leaf(txid, index, content):
    return H(b"\x00", txid, index.to_bytes(4, "big"), H(content))


TOMBSTONE = H(b"\x03")


def parent(left, right):
    return H(b"\x01", left, right)


def root_hash(leaves, bag):
    return H(b"\x02", leaves.to_bytes(8, "big"), bag)


# --- "Proof" ----------------------------------------------------------------------------------


@dataclass
class Proof:
    network: str
    height: int
    block_hash: bytes
    leaves: int
    root: bytes
    leaf: int
    output: tuple | None  # txid, index, content; None where the leaf is spent
    path: list = field(default_factory=list)


def integer(value, bits, name):
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    need(is_integer and 0 <= value < 2**bits, f"{name} is not a number of {bits} bits")
    return value


def lower_hex(value, name, length=None):
    need(isinstance(value, str), f"{name} is not a text")
    digits = set("0123456789abcdef")
    need(len(value) % 2 == 0 and set(value) <= digits, f"{name} is not lower-case hexadecimal")
    data = bytes.fromhex(value)
    need(length is None or len(data) == length, f"{name} does not have {length} bytes")
    return data


def without_repetition(pairs):
    names = [name for name, _ in pairs]
    need(len(names) == len(set(names)), "a field is there twice")
    return dict(pairs)


def whole(text):
    """An integer of a JSON document: none is negative, and `-0` is not a way to write zero."""
    need(text[0] != "-" and len(text) <= 20, "a number is negative or too large")
    return int(text)


def known_network(text):
    need(text in NETWORKS, "the network is not known")
    return text


def from_json(text):
    try:
        document = json.loads(text, object_pairs_hook=without_repetition, parse_int=whole)
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON: {error}") from error
    need(isinstance(document, dict), "not a JSON object")
    state = document.get("state")
    need(state in ("unspent", "spent"), "the state is neither unspent nor spent")
    names = NAMES + (NAMES_OF_UNSPENT if state == "unspent" else ()) + ("path",)
    for name in names:
        need(name in document, f"{name} is missing")
    for name in document:
        need(name in names, f"{name} does not belong there")
    need(integer(document["version"], 32, "version") == 1, "the version is not known")
    need(document["rule"] == "tombstone", "the rule is not known")
    network = known_network(document["network"])

    def chain_hash(name):
        data = lower_hex(document[name], name, 32)
        return data[::-1] if network.startswith("bitcoin/") else data

    output = None
    if state == "unspent":
        index = integer(document["output_index"], 32, "output_index")
        output = (chain_hash("tx_hash"), index, lower_hex(document["content"], "content"))
    need(isinstance(document["path"], list), "path is not a list")
    return Proof(
        network=network,
        height=integer(document["height"], 32, "height"),
        block_hash=chain_hash("block_hash"),
        leaves=integer(document["leaves"], 64, "leaves"),
        root=lower_hex(document["root"], "root", 32),
        leaf=integer(document["leaf"], 64, "leaf"),
        output=output,
        path=[lower_hex(one, "a hash of the path", 32) for one in document["path"]],
    )


class Cbor:
    """Reads the few things of CBOR that a proof is made of, in their shortest form only."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        need(self.at + length <= len(self.data), "the document is cut off")
        self.at += length
        return self.data[self.at - length : self.at]

    def head(self, major):
        first = self.take(1)[0]
        need(first >> 5 == major, "a part of the document is of another type")
        short = first & 31
        if short < 24:
            return short
        need(short < 28, "a length is not definite")
        value = int.from_bytes(self.take(1 << (short - 24)), "big")
        least = 24 if short == 24 else 1 << (8 << (short - 25))
        need(value >= least, "a number is not in its shortest form")
        return value

    def key(self, expected):
        need(self.head(0) == expected, "a field is missing, unknown or out of order")

    def octets(self, length=None):
        data = self.take(self.head(2))
        need(length is None or len(data) == length, f"a hash does not have {length} bytes")
        return data

    def text(self):
        try:
            return self.take(self.head(3)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("a text is not UTF-8") from error

    def boolean(self):
        value = self.take(1)
        need(value in (b"\xf4", b"\xf5"), "the state is neither true nor false")
        return value == b"\xf5"


def from_cbor(data):
    read = Cbor(data)
    fields = read.head(5)
    read.key(0)
    need(read.head(0) == 1, "the version is not known")
    read.key(1)
    network = known_network(read.text())
    read.key(2)
    height = integer(read.head(0), 32, "height")
    read.key(3)
    block_hash = read.octets(32)
    read.key(4)
    leaves = read.head(0)
    read.key(5)
    root = read.octets(32)
    read.key(6)
    leaf = read.head(0)
    read.key(7)
    output = None
    if read.boolean():
        read.key(8)
        txid = read.octets(32)
        read.key(9)
        index = integer(read.head(0), 32, "output_index")
        read.key(10)
        output = (txid, index, read.octets())
    need(fields == (9 if output is None else 12), "there are fields too many or too few")
    read.key(11)
    length = read.head(4)
    need(length <= PATH_MAX, "the path is too long")
    path = [read.octets(32) for _ in range(length)]
    need(read.at == len(data), "something stands behind the document")
    return Proof(network, height, block_hash, leaves, root, leaf, output, path)


# --- "Checking" -------------------------------------------------------------------------------


def check(proof, trusted_root=None):
    """Raises Refused unless the proof leads to its root, and that is the trusted one."""
    n, i = proof.leaves, proof.leaf
    need(i < n, "there is no such leaf")  # step 1
    h = (i ^ n).bit_length() - 1  # step 2
    has_right = n % 2**h != 0
    lefts = (n >> (h + 1)).bit_count()
    need(len(proof.path) == h + has_right + lefts, "the path has another length")  # step 3
    value = TOMBSTONE if proof.output is None else unspent_leaf(*proof.output)  # step 4
    path = list(proof.path)
    for level in range(h):  # step 5
        other = path.pop(0)
        value = parent(other, value) if i >> level & 1 else parent(value, other)
    if has_right:  # step 6
        value = parent(value, path.pop(0))
    for peak in path:  # step 7
        value = parent(peak, value)
    need(root_hash(n, value) == proof.root, "the path does not lead to the root")  # step 8
    if trusted_root is not None:
        need(proof.root == trusted_root, "the root is not the trusted one")


# --- "Pinned" ---------------------------------------------------------------------------------


def root_of(leaves):
    """The root by its definition: mountains, peaks, bag."""
    peaks, start = [], 0
    for height in reversed(range(len(leaves).bit_length())):
        if len(leaves) >> height & 1:
            row = leaves[start : start + 2**height]
            start += 2**height
            while len(row) > 1:
                row = [parent(left, right) for left, right in zip(row[::2], row[1::2])]
            peaks.append(row[0])
    bag = b""
    for number, peak in enumerate(reversed(peaks)):
        bag = peak if number == 0 else parent(peak, bag)
    return root_hash(len(leaves), bag)


def self_test():
    leaves = [unspent_leaf(bytes([i]) * 32, i, b"v" + bytes([i])) for i in range(11)]
    spent = [TOMBSTONE if i in (0, 4, 5, 10) else leaf for i, leaf in enumerate(leaves)]
    towers = [TOMBSTONE]
    for _ in range(20):
        towers.append(parent(towers[-1], towers[-1]))
    pinned = {
        "5c3cd7b696e23b2d800734e78972f333448955cdd73bedd7061bb3e8c6e4edd0": root_of([]),
        "ea4abb8f66a02bbd64bd4814468280a891c60e9fce14d018ffa6b5186678836d": root_of(leaves),
        "9069a038813ef91a87ddd2ee32aa4d21e0e2748ecd92da84c9a9ecb4ea390cad": root_of(spent),
        "e88bd757ad5b9bedf372d8d3f0cf6c962a469db61a265f6418e1ffed86da29ec": towers[0],
        "1749ef1c8f27e7d7861d17710cb4cb527d099a6e18f3240e73a46e285c1f2214": towers[1],
        "cd2108bdda607cd6edf18c5378e1c593e56e020e28d1533908841f4348a5d430": towers[20],
    }
    for expected, found in pinned.items():
        need(found.hex() == expected, f"{found.hex()} where the page has {expected}")


def check_file(name, trusted_root):
    with open(0 if name == "-" else name, "rb", closefd=name != "-") as file:
        data = file.read(BYTES_MAX + 1)
    need(len(data) <= BYTES_MAX, f"longer than {BYTES_MAX} bytes")
    if data.lstrip()[:1] != b"{":
        return checked(from_cbor(data), trusted_root)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("not UTF-8") from error
    return checked(from_json(text), trusted_root)


def checked(proof, trusted_root):
    """Checks a proof, and answers in words what it proves."""
    check(proof, trusted_root)
    return "unspent" if proof.output is not None else "spent"


def main(words):
    names, trusted_root, keep_going, wants_self_test = [], None, False, False
    words = iter(words)
    for word in words:
        if word == "--root":
            try:
                trusted_root = lower_hex(next(words, ""), "--root", 32)
            except Refused as error:
                print(f"mmr_check.py: {error}", file=sys.stderr)
                return 2
        elif word == "--keep-going":
            keep_going = True
        elif word == "--self-test":
            wants_self_test = True
        elif word.startswith("-") and word != "-":
            print(f"mmr_check.py: {word} is not known\n\n{__doc__}", file=sys.stderr)
            return 2
        else:
            names.append(word)
    if not names and not wants_self_test:
        print(__doc__, file=sys.stderr)
        return 2
    is_refused = False
    tasks = [(name, lambda name=name: check_file(name, trusted_root)) for name in names]
    if wants_self_test:
        tasks.insert(0, ("--self-test", self_test))
    for name, task in tasks:
        try:
            state = task()
            print(f"{name}: ok, {state}" if state else f"{name}: ok")
        except (Refused, OSError) as error:
            print(f"{name}: refused: {error}", file=sys.stderr)
            is_refused = True
            if not keep_going:
                break
    return 1 if is_refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
