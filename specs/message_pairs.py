#!/usr/bin/python3
"""message_pairs.py: English messages of installed programs and their translations, one a line in two files.

  specs/message_pairs.py out/en.txt out/fr.txt [--language fr] [--root FOLDER]

Reads the message catalogues of the installed Debian packages, and takes what has three words or more: `apt-get install
libreoffice-l10n-fr` brings almost 10,000 pairs, and every other program its own. The same catalogues give the same
files; pairs stand in the order of a hash, so that any part of them is a fair sample. --root reads packages that were
unpacked below a folder (`dpkg-deb -x PACKAGE.deb FOLDER`) in place of those installed.
"""
import argparse
import gettext
import glob
import hashlib
import os
import re

FOLDERS = ("/usr/share/locale/{}/LC_MESSAGES/*.mo", "/usr/lib/libreoffice/program/resource/{}/LC_MESSAGES/*.mo")
WORD = re.compile(r"\b[^\W\d_]+\b")
MENU_MARK = re.compile(r"~(?=\w)|(?<!\w)_(?=\w)")


def catalogue(path):
    """(English, translation) of a file; of a plural its first form."""
    with open(path, "rb") as file:
        try:
            messages = gettext.GNUTranslations(file)._catalog
        except (OSError, UnicodeDecodeError, ValueError):
            return  # not a catalogue that can be read
    for key, translation in messages.items():
        english, form = key if isinstance(key, tuple) else (key, 0)
        if form == 0:
            yield english.split("\x04")[-1], translation  # before it the context, for translators


def plain(message):
    """A message without the marks of menu keys, in one line without blanks around it."""
    return MENU_MARK.sub("", message).strip()


def is_sentence(message):
    return len(WORD.findall(message)) >= 3 and message.isprintable()


def pairs_of(language, root="/"):
    """[(English, translation)]"""
    paths = sorted({os.path.realpath(path) for folder in FOLDERS for path in glob.glob(root.rstrip("/") + folder.format(language))})
    pairs = {}
    for path in paths:
        for english, translation in catalogue(path):
            english, translation = plain(english), plain(translation)
            if is_sentence(english) and is_sentence(translation) and english != translation:
                pairs.setdefault(english, translation)
    return sorted(pairs.items(), key=lambda pair: hashlib.sha256(pair[0].encode()).digest())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("english", help="file to write")
    parser.add_argument("translated", help="file to write")
    parser.add_argument("--language", default="fr")
    parser.add_argument("--root", default="/", help="below which the packages lie")
    options = parser.parse_args()
    pairs = pairs_of(options.language, options.root)
    if not pairs:
        raise SystemExit(f"no catalogues for `{options.language}`: try apt-get install libreoffice-l10n-{options.language}")
    for path, lines in zip((options.english, options.translated), zip(*pairs)):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in lines)
        sizes = sorted(len(line.encode()) for line in lines)
        print(f"{path}: {len(sizes)} lines, half of at most {sizes[len(sizes) // 2]} bytes, nine tenths of {sizes[len(sizes) * 9 // 10]}")


if __name__ == "__main__":
    main()
