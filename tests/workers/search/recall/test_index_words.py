"""Which words the index has of a text, and which a question asks for (KN-11)."""

import asyncio

import pytest

from engramq.workers.one_form import forms_in
from engramq.workers.queue.background import Activity
from engramq.workers.search.question import Question
from engramq.workers.upkeep.rebuilding import Rebuilding
from tests.conftest import Database
from tests.workers.search.recall.conftest import Scene, ids


def words_of(database: Database, text: str, language: str = "english") -> set[str]:
    (row,) = database.rows("select words_in(%s, %s) as words", language, text)
    return set(row["words"])


def asked_by(database: Database, question: str) -> set[str]:
    (row,) = database.rows("select words_asked(array['english'], %s) as words", question)
    return set(row["words"])


@pytest.mark.promise("KN-11")
async def test_parts_of_a_compound_word_are_words_and_so_is_each_pair_of_neighbours(database: Database) -> None:
    for text, words in {
        "ENG-123": "eng 123 eng-123",
        "CVE-2024-31337": "cve 2024 31337 cve-2024 2024-31337",
        "src/billing/charge.py": "src bill charg py src-billing billing-charge charge-py",
        "v0.28.0": "v 0 28 v-0 0-28 28-0",
        "python3.11": "python 3 11 python-3 3-11",
        "F-16": "f 16 f-16",
        "F16": "f 16 f-16",
        "max_retry_count": "max retri count max-retry retry-count",
        "getUserName": "getusernam get user name get-user user-name",
        "JavaScript and GitHub": "javascript github",  # which nobody writes in two words
        "2026-11-28": "2026 11 28 2026-11 11-28",
        "it fell to -18, by +5": "fell 18 5",  # no sign makes another number
        "ada@mail.example.org": "ada mail exampl org ada-mail mail-example example-org",
        "https://ada.example.org/a?b=c": "ada exampl org b c ada-example example-org org-a a-b b-c",
        "well-known": "wellknown well known",
        "C# C++ .NET #1234 @ada": "c c# c++ net .net 1234 #1234 ada @ada",
        "wait... what? 1, 2": "wait 1 2",
        "a 12 <b>bold</b> x-1": "12 bold x 1 x-1",
        "/healthz ~/.zshrc": "healthz zshrc .zshrc",
        "in /.well-known, x": "wellknown well known .well x",
        "https://a.example/etc": "exampl a-example etc example-etc",
    }.items():
        assert words_of(database, text) == set(words.split()), text
    assert {"ключ", "7", "ключ-7"} <= words_of(database, "ключ_7", "simple")
    assert {"数据", "据库", "eng-123"} <= words_of(database, "数据库ENG-123")


@pytest.mark.promise("KN-11")
@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("the café on Rue Cler", "cafe"), ("José Ibáñez signs", "Jose Ibanez"), ("a résumé", "resume"),
        ("Søren lives in Málaga", "Soren, Malaga"), ("Łukasz", "Lukasz"), ("Straße 14", "Strasse 14"),
        ("Smørrebrød", "smorrebrod"), ("Νίκος", "Νικος"), ("ёлка", "елка"), ("cafe\u0301", "café"),
        ("send an e-mail", "email"), ("the sign-ups", "signup"), ("our co-operative", "cooperative"),
        ("Hye-jin chairs", "Hyejin"), ("Ærøskøbing ferry", "ærøskøbing"), ("Œuvre", "œuvre"), ("STRAẞE", "straße"),
        ("Ðuro", "đuro"), ("Ħamrun", "ħamrun"), ("Ŧuru", "ŧuru"),
    ],
)  # fmt: skip
async def test_a_word_is_found_without_its_accents_and_hyphens(database: Database, kept: str, asked: str) -> None:
    assert asked_by(database, asked) <= words_of(database, kept)
    assert asked_by(database, kept) == words_of(database, kept)


@pytest.mark.promise("KN-11")
@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("german", "Café Cafe"), ("german", "Cafés Cafes"), ("german", "José Jose"), ("german", "André Andre"),
        ("german", "Häuser Haus"), ("german", "Häuser Hauser"), ("german", "résumé resume"), ("german", "Ætna ætna"),
        ("german", "qualité qualite"), ("swedish", "Café Cafe"), ("swedish", "Müller Muller"), ("french", "déjà deja"),
        ("french", "Renée Renee"), ("french", "mangée manger"), ("spanish", "Cafés Cafes"),
        ("spanish", "información informaciones"), ("portuguese", "informação informacao"), ("russian", "naïve naive"),
        ("chinese", "résumés resume"),
    ],
)  # fmt: skip
async def test_a_word_of_another_language_has_a_word_in_common_with_it_without_accents(
    database: Database, language: str, forms: str
) -> None:
    accented, plain = (words_of(database, form, language) for form in forms.split())
    assert accented & plain


@pytest.mark.promise("KN-11")
async def test_stems_of_other_languages_are_told_by_accents_which_go_then(database: Database) -> None:
    assert words_of(database, "über die Brücke für Jürgen", "german") == {"bruck", "jurg"}
    assert words_of(database, "Das Café in der Qualitäts-Straße", "german") == {
        "cafe", "caf", "qualitat", "qualitatsstrass", "strass",
    }  # fmt: skip
    assert words_of(database, "à l'école", "french") == {"ecol"}
    assert words_of(database, "мой чай", "simple") == {"мой", "чай"}


@pytest.mark.promise("KN-11")
async def test_a_stop_word_that_is_a_name_is_a_word_and_one_alone_is_asked_for(database: Database) -> None:
    for text, words in {
        "The laptops come from IT": {"laptop", "come", "it"},
        "My father saw The Who with Will": {"father", "saw", "the", "who", "will"},
        "The fox. It sleeps": {"fox", "sleep"},
        "WHO met them": {"who", "met"},
    }.items():
        assert words_of(database, text) == words, text
    for question, words in {
        "who": {"who"}, "The Who": {"who"}, "to be": {"to", "be"}, "What did Will do?": {"will"}, "Will": {"will"},
        "Who is in the band": {"band"}, "?!": set[str](),
    }.items():  # fmt: skip
        assert asked_by(database, question) == words, question


@pytest.mark.promise("KN-11")
async def test_words_of_a_former_rule_are_made_anew_after_a_migration(scene: Scene, work: Rebuilding) -> None:
    kept = await scene.keep("Ticket OPS-2291 is done")
    lexemes = "update memories set lexemes = array_to_tsvector(array[lexeme_prefix(tenant) || %s])"
    scene.world.rows(lexemes, "-2291")
    scene.world.model.down = True
    assert await scene.found("2291") == []
    scene.world.rows("select make_words_anew()")
    scene.world.rows("select make_words_anew()")  # another migration before upkeep has come to it
    await work.run()
    assert ids(await scene.found("2291")) == [kept]
    assert scene.world.count("lexeme_rebuilds") == 0


@pytest.fixture
def work(scene: Scene) -> Rebuilding:
    return Rebuilding(store=scene.world.store, activity=Activity(), stopping=asyncio.Event(), settled_s=0.0)


@pytest.mark.promise("KN-7", "KN-11")
@pytest.mark.parametrize(
    "forms",
    [
        "12345|12,345|12.345|12 345|12'345|12_345", "1234.56 EUR|1.234,56 EUR|1,234.56 EUR", "350000|350k|350 thousand",
        "1200000|1.2M|1.2 million|1,2 Millionen|1 200 000", "500ml|500 ml", "3.5 m|3,5 m|3.5m", "24C|24°C|24 °C",
        "81523|00081523", "+49 30 123456|030123456|(030) 123456|030/123456|0049 30 123456|+49 (0)30 123456|+4930123456",
        "(617) 555-0142|6175550142|617.555.0142|+1 617 555 0142|1-617-555-0142",
        "DE89 3704 0044 0532 0130 00|DE89370400440532013000", "GB29 NWBK 6016 1331 9268 19|GB29NWBK60161331926819",
        "978-3-16-148410-0|9783161484100", "3C:52:82:AB:0F:11|3c-52-82-ab-0f-11|3c5282ab0f11", "Müller|Mueller",
        "Schröder|Schroeder", "Zürich|Zuerich", "O'Brien|OBrien|O\u2019Brien", "D'Angelo|DAngelo",
    ],
)  # fmt: skip
async def test_whatever_form_is_kept_each_other_form_finds_it(database: Database, forms: str) -> None:
    for kept in (several := forms.split("|")):
        words = kept_words(database, kept)
        misses = [asked for asked in several if not finds(database, asked, words)]
        assert misses == [], (kept, words)


NUMBERS = (
    "(617) 555-0142", "617.555.0142", "+1 617 555 0142", "030 5551213", "030/5551213", "(030) 5551213",
    "+49 30 5551213",
    "+49 (0)30 5551213", "0049 30 5551213", "DE89 3704 0044 0532 0130 00", "de89 3704 0044 0532 0130 00",
    "GB29 NWBK 6016 1331 9268 19", "978-3-16-148410-0", "4111 1111 1111 1111", "3C:52:82:AB:0F:11", "00:11:22:33:44:55",
    "AA:BB:CC:DD:EE:FF", "1.500 km", "2.000 kg", "1 500 ml", "1'500 kg", "1 024 MB", "20 °F", "12k", "20,971,520",
    "00417",
    "#00417", "12 345", "350 000",
)  # fmt: skip
CONTEXTS = (
    "{}", "X ({})", "X ({} 2 pm to 4 pm)", "{} (2 pm to 4 pm)", "{}. 3 doctors", "{} / 0171 5556789", "X {} / Y",
    "{} 2026",
    "{} - 3", "on 2026-11-28 {}", "2026 {}", "1. {}", "{}, {}", "{}\n0171 5556789", "X: {}; 14:30",
)  # fmt: skip


@pytest.mark.promise("KN-7", "KN-11")
@pytest.mark.parametrize("number", NUMBERS)
async def test_a_number_is_found_as_it_was_kept_whatever_stands_beside_it(database: Database, number: str) -> None:
    own, form = asked_by(database, number), asked_by(database, " ".join(forms_in(number)))
    for context in CONTEXTS:
        words = kept_words(database, context.replace("{}", number))
        assert own <= words, context
        assert form <= words, context


@pytest.mark.promise("KN-7", "KN-11")
@pytest.mark.parametrize("context", ["{}", "({} (2 pm to 4 pm))", "{}. 3 doctors", "{} / 0171 5556789", "{} 2026"])
async def test_the_right_number_is_first_among_ten_alike(scene: Scene, context: str) -> None:
    scene.world.model.down = True
    kept = [
        await scene.keep(f"The practice number {practice}: " + context.format(f"(617) 555-01{practice}"))
        for practice in range(40, 50)
    ]
    for place, practice in enumerate(range(40, 50)):
        for asked in (f"(617) 555-01{practice}", f"617.555.01{practice}", f"+1 617 555 01{practice}"):
            assert ids(await scene.found(asked))[0] == kept[place], asked


@pytest.mark.promise("KN-7", "KN-11")
@pytest.mark.parametrize(
    ("kept", "word"),
    [
        ("50,000 won a month", "win"), ("the rate in % of sales", "percent"), ("a 64 bit word", "bite"),
        ("in $HOME of 3 users", "dollar"), ("during Lent", "lend"), ("Manuel signs", "Manul"), ("Michael signs",
        "Michal"),
        ("Noel signs", "Nol"), ("Samuel signs", "Samul"), ("Manuela and Michaels", "Manula"), ("Does it", "Dos"),
        ("101 102 103", "101102103"), ("2022 2023 2024 2025", "2022202320242025"), ("iPhone 15 128 GB", "15128"),
        ("on 2026-11-28 at 9", "20261128"), ("host 10.20.30.42", "10203042"),
    ],
)  # fmt: skip
async def test_what_only_looks_like_a_form_is_none(database: Database, kept: str, word: str) -> None:
    assert not asked_by(database, word) & kept_words(database, kept)


@pytest.mark.parametrize(
    "name", ["Mueller", "Schroeder", "Zuerich", "Juergen", "Koeln", "Guenther", "Schaefer", "Goethe"]
)
async def test_a_name_without_dots_is_found_with_them(database: Database, name: str) -> None:
    plain = name.replace("ue", "ü").replace("oe", "ö").replace("ae", "ä")
    assert asked_by(database, plain) <= kept_words(database, name)


@pytest.mark.promise("KN-11")
async def test_no_repeated_form_takes_the_place_of_another(database: Database) -> None:
    assert {"500ml", "750ml"} <= kept_words(database, "500 ml, " * 40 + "750 ml")


def kept_words(database: Database, text: str) -> set[str]:
    (row,) = database.rows(
        "select tsvector_to_array(lexemes_of(1, 'english', %s, null, null)) as words, lexeme_prefix(1) as prefix", text
    )
    return {word.removeprefix(row["prefix"]) for word in row["words"]}


def finds(database: Database, asked: str, words: set[str]) -> bool:
    """Say whether a memory has all words of a question, or those of one of its forms."""
    return any(asked_by(database, form) <= words for form in (asked, *forms_in(asked)))


@pytest.mark.promise("KN-7", "KN-11")
@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("the class HTTPServerFactory", "server factory"), ("an HTTPServerFactory", "ServerFactory"),
        ("she carries an EpiPen", "epi pen"),
        ("commit 9f8e7d6c5b4a", "9f8e7d6"), ("the children chased wolves", "child wolf"),
        ("Anke bought mice", "buy mouse"), ("it cost \u20ac1,499", "1499 EUR"), ("order A1B2-C3D4", "a1b2c3d4"),
        ("enable_dark_mode is off", "EnableDarkMode"), ("wird gepr\u00fcft", "geprueft"), ("Z\u00fcrich", "Zurich"),
    ],
)  # fmt: skip
async def test_what_is_kept_is_found_by_what_others_call_it(database: Database, kept: str, asked: str) -> None:
    assert finds(database, asked, kept_words(database, kept))


@pytest.mark.parametrize(
    "asked",
    [
        "the code of 2026-03-05", "host 10.20.30.42", "tickets 4417 4418 4419", "3 in stock", "v2.3.0", "09:30-10:30",
        "in 2024/2025", "rooms 101 102 103", "2022 2023 2024 2025",
        "\u0663\u0664\u0665\u0666 \u0663\u0664\u0665 ml",
    ],
)  # fmt: skip
def test_what_is_no_number_in_groups_is_asked_for_as_it_is(asked: str) -> None:
    assert Question(asked).words == asked
    assert forms_in(asked) == {}


@pytest.mark.parametrize("asked", ["(617) 555-0142", "500 ml", "20,971,520", "00417"])
def test_a_question_keeps_its_own_words_beside_a_form(asked: str) -> None:
    question = Question(asked)
    assert question.words == asked
    assert question.spellings.split() == list(forms_in(asked))
