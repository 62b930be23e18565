"""Put the times of a question into English: those of German, French, Spanish, Japanese and Chinese. Pure.

"Was habe ich gestern gemacht?" becomes "did did all yesterday did?". That is no sentence, but `read_times` finds the
time in it, and sees whether anything else is asked: there is one set of rules for times. A word is read as a time where
its language has no other use for it, or where it stands as times stand: Mars is a planet, and "en mars" a month.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from engramq.schemas.patterns import compile_late
from engramq.workers.search.number_words import spell_count
from engramq.workers.search.spans import MONTHS, WEEKDAYS
from engramq.workers.search.time_words import COUNTS

Meanings: TypeAlias = Mapping[str, str]
Rules: TypeAlias = tuple[tuple[re.Pattern[str], str], ...]

_COUNTS: Final = tuple(COUNTS)[1:13]  # one to twelve
_UNITS: Final = ("day", "week", "weekend", "month", "quarter", "year", "summer", "winter", "spring", "autumn")
_WORD: Final = compile_late(r"\w+(?:['\u2019-]\w+)*")


@dataclass(frozen=True, eq=False)
class _Language:
    """How a language says times: patterns, and what takes their place, with what `words` says of their groups.

    `told_by`: words of which a text has one that names such a time; `unless`: words of a language that it may be
    instead. `asking`: words that ask for whatever there was, which are put into English only beside a time.
    `alone`: times of one word, which may be names, and `beside`: more words that tell the language beside those.
    """

    told_by: frozenset[str]
    words: Meanings
    rules: Rules
    asking: Meanings
    unless: frozenset[str] = frozenset()
    alone: Rules = ()
    beside: str = ""

    def in_english(self, text: str, words: frozenset[str]) -> str:
        """Return a text of these words, in lower case, with its times in English."""
        if words.isdisjoint(self.told_by) or not words.isdisjoint(self.unless):
            return text
        found = text
        for pattern, english in (*self.rules, *(self.alone if self._is_told(words) else ())):
            found = pattern.sub(partial(self._put, english), found)
        if found == text or not self.asking:
            return found
        return _WORD.sub(lambda match: self.asking.get(match[0].lower().replace("\u2019", "'"), match[0]), found)

    def _is_told(self, words: frozenset[str]) -> bool:
        """Say whether a text is of this language for sure: Chris Hoy and A. J. Ayer are asked for in English."""
        telling = self.asking.keys() - _ALSO_ENGLISH | set(self.beside.split())
        return len(words) == 1 or not (words.isdisjoint(telling) or words & _ENGLISH)

    def _put(self, english: str, match: re.Match[str]) -> str:
        return english.format(*(self.words.get(part.lower(), part) if part else "" for part in match.groups()))


def english_times(text: str) -> str:
    """Return a text with its times in English: "letzte Woche" is last week, "5. März 2026" is 5 March 2026."""
    words = frozenset(_ALL_WORDS.findall(text.lower()))
    for language in (_GERMAN, _FRENCH, _SPANISH):
        text = language.in_english(text, words)
    return _EAST.in_english(text, frozenset(text)) if not text.isascii() else text


_ALL_WORDS: Final = compile_late(r"[^\W\d_]+")


def _pair_words(text: str, english: Sequence[str]) -> dict[str, str]:
    """Return what words mean that stand in the order of the English ones, forms of one with bars between; "-": none."""
    pairs = zip(text.split(), english, strict=True)
    return {form.replace("_", " "): meaning for forms, meaning in pairs for form in forms.split("|") if form != "-"}


def _mean(english: str, text: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), english)


def _any(words: Meanings) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


def _between_words(*rules: tuple[str, str], exact: bool = False) -> Rules:
    """Return rules of whole words; `exact`: with capitals as they are written."""
    flags = 0 if exact else re.IGNORECASE
    return tuple((compile_late(rf"(?<![\w-])(?:{pattern})(?![\w-])", flags), english) for pattern, english in rules)


def _not_after(others: str, word: str) -> str:
    return word + "".join(rf"(?<!\b{other} {word})" for other in others.split())


_ENGLISH: Final = frozenset(_mean("", "who what where when did does the is are how why which of to and for from with"))
_ALSO_ENGLISH: Final = frozenset(_mean("", "a an am in on so was will he"))
# Months in the order of the year; what English reads alike ("-") is read where a preposition stands before it.
_GERMAN_MONTHS: Final = _pair_words(
    "januar|jänner februar märz|maerz|marz - mai juni juli - - oktober - dezember", MONTHS
)
_GERMAN_DAYS: Final = _pair_words("montag dienstag mittwoch donnerstag freitag samstag|sonnabend sonntag", WEEKDAYS)
_GERMAN_COUNTS: Final = _pair_words(
    "ein|eine|einem|einer|einen zwei drei vier fünf sechs sieben acht neun zehn elf zwölf", _COUNTS
) | {spell_count(number)[-1]: str(number) for number in range(13, 100)}
_GERMAN_UNITS: Final = _pair_words(
    "tag|tage|tagen woche|wochen wochenende|wochenenden monat|monats|monate|monaten quartal|quartale|quartalen "
    "jahr|jahrs|jahres|jahre|jahren sommer winter frühling|frühjahr herbst",
    _UNITS,
)
_GERMAN_SIDES: Final = (
    _mean("last", "letzt vergangen vorig") | _mean("next", "nächst naechst kommend") | _mean("this", "dies")
)
_ANY_GERMAN_MONTH: Final = f"{_any(_GERMAN_MONTHS)}|April|August|September|November"
_DAYS_AS_WRITTEN: Final = " ".join([*WEEKDAYS, *_GERMAN_DAYS, *map(str.capitalize, _GERMAN_DAYS)])
_GERMAN_TIME: Final = f"(?:({_any(_GERMAN_UNITS)})|({_any(_GERMAN_DAYS)}))"
_GERMAN_TO: Final = r"(?:bis(?: zum)?|und(?: dem)?|-|–)"
_GERMAN_NUMBER: Final = rf"(\d+|{_any(_GERMAN_COUNTS)})"
_GERMAN: Final = _Language(
    frozenset(_GERMAN_DAYS | _GERMAN_UNITS | _mean("", _ANY_GERMAN_MONTH.lower().replace("|", " ")))
    | {"gestern", "vorgestern", "heute", "morgen", "übermorgen", "im", "vor", "vom", "nach", "seit", "zwischen"},
    _GERMAN_MONTHS | _GERMAN_DAYS | _GERMAN_COUNTS | _GERMAN_UNITS | _GERMAN_SIDES
    | {"am": "on", "im": "in", "vor": "before", "nach": "after", "bis": "until", "seit": "since", "ab": "since",
       "anfang": "early", "mitte": "mid", "ende": "late"},
    _between_words(
        (rf"vor {_GERMAN_NUMBER} ({_any(_GERMAN_UNITS)})", "{0} {1} ago"),
        (rf"in {_GERMAN_NUMBER} ({_any(_GERMAN_UNITS)})", "in {0} {1}"),
        (rf"(?:in )?(?:die |der |den )?({_any(_GERMAN_SIDES)})en {_GERMAN_NUMBER} ({_any(_GERMAN_UNITS)})",
         "the {0} {1} {2}"),
        (rf"(?:am |im |in (?:der|den|dem) )?({_any(_GERMAN_SIDES)})e[nrsm]? {_GERMAN_TIME}", "{0} {1}{2}"),
        ("am Wochenende", "on the weekend"),
        (rf"(am|seit|bis|ab|vor|nach) (?:de[mr] )?({_any(_GERMAN_DAYS)})", "{0} {1}"),
        (rf"(?:zwischen dem |vom )?([0-9]{{1,2}})\.? ?{_GERMAN_TO} ?([0-9]{{1,2}})\. ?({_ANY_GERMAN_MONTH})",
         "{0} to {1} {2} "),
        (rf"(seit|bis|ab|vor|nach)(?: de[mr]| zum)? ([0-9]{{1,2}})\. ?({_ANY_GERMAN_MONTH})", "{0} {1} {2} "),
        (rf"([0-9]{{1,2}})\. ?({_ANY_GERMAN_MONTH})", "{0} {1} "),
    )
    + _between_words(
        (rf"([Ii]m|[Ss]eit|[Vv]or|[Nn]ach|[Bb]is|[Aa]b|[Aa]nfang|[Mm]itte|[Ee]nde) ((?i:{_ANY_GERMAN_MONTH}))",
         "{0} {1} "),
        exact=True,
    ),
    _mean("did", "habe hab haben hat hatte hatten war waren wurde wurden gab gemacht getan geschah geschehen "
                 "los lief passiert passierte gewesen gelaufen erledigt besprochen beschlossen entschieden")
    | _mean("will", "wird werden will wollen muss müssen steht mache machen tun")
    | _mean("all", "was ist sind es alles ich wir uns mir so denn an bei auf und der die das den dem im am vom von zu "
                   "neu neues termine pläne abend nachmittag vormittag morgen früh"),
    alone=_between_words(
        ("vorgestern", "the day before yesterday"),
        ("gestern", "yesterday"),
        ("heute", "today"),
        ("übermorgen", "the day after tomorrow"),
        (_not_after(f"guten Guten jeden diesen am the every on today yesterday {_DAYS_AS_WRITTEN}", "morgen"),
         "tomorrow"),
        exact=True,
    ),
    beside="wann wer wen wo wie bin hast gibt kommt nicht mit für ein eine mein meine",
)  # fmt: skip

_FRENCH_MONTHS: Final = _pair_words(
    "janvier février|fevrier mars avril mai juin juillet août|aout septembre octobre novembre décembre|decembre", MONTHS
)
_FRENCH_DAYS: Final = _pair_words("lundi mardi mercredi jeudi vendredi samedi dimanche", WEEKDAYS)
_FRENCH_COUNTS: Final = _pair_words("un|une deux trois quatre cinq six sept huit neuf dix onze douze", _COUNTS) | {
    "quinze": "15"
}
_FRENCH_UNITS: Final = _pair_words(
    "jour|jours semaine|semaines week-end|weekend mois trimestre|trimestres an|ans|année|années été hiver printemps "
    "automne",
    _UNITS,
)
_FRENCH_SIDES: Final = _mean("last", "dernier dernière derniers dernières passé passée") | _mean(
    "next", "prochain prochaine prochains prochaines"
)
_FRENCH_NUMBER: Final = rf"(\d+|{_any(_FRENCH_COUNTS)})"
_FRENCH: Final = _Language(
    frozenset(_FRENCH_DAYS | _FRENCH_MONTHS | _FRENCH_SIDES | _FRENCH_UNITS) - {"an", "été", "weekend"}
    | {"hier", "aujourd", "demain", "il"},
    _FRENCH_MONTHS | _FRENCH_DAYS | _FRENCH_COUNTS | _FRENCH_UNITS | _FRENCH_SIDES
    | {"en": "in", "depuis": "since", "dès": "since", "avant": "before", "après": "after", "début": "early",
       "fin": "late"},
    _between_words(
        (rf"il y a {_FRENCH_NUMBER} ({_any(_FRENCH_UNITS)})", "{0} {1} ago"),
        (rf"dans {_FRENCH_NUMBER} ({_any(_FRENCH_UNITS)})", "in {0} {1}"),
        (rf"(?:les|ces|des) {_FRENCH_NUMBER} ({_any(_FRENCH_SIDES)}) ({_any(_FRENCH_UNITS)})", "the {1} {0} {2}"),
        (rf"(?:l[ea] |l['\u2019])?({_any(_FRENCH_UNITS | _FRENCH_DAYS)}) ({_any(_FRENCH_SIDES)})", "{1} {0}"),
        (rf"cet(?:te)? ({_any(_FRENCH_UNITS)})|ce (mois|week-end|trimestre)(?:-ci)?", "this {0}{1}"),
        (rf"(depuis|avant|après|dès) ({_any(_FRENCH_DAYS)})", "{0} {1}"),
        ((rf"(?:entre le|du) ([0-9]{{1,2}})(?:er)?(?: ({_any(_FRENCH_MONTHS)}))? (?:et le|au) ([0-9]{{1,2}}) "
          rf"({_any(_FRENCH_MONTHS)})"), "{0} {1} to {2} {3} "),
    )
    + _between_words(
        (rf"([Dd]epuis|[Aa]vant|[Aa]près) le ([0-9]{{1,2}})(?:er)? ({_any(_FRENCH_MONTHS)})", "{0} {1} {2} "),
        (rf"(?:[Ll]e|[Dd]u|[Aa]u) ([0-9]{{1,2}})(?:er)? ({_any(_FRENCH_MONTHS)})", "{0} {1} "),
        (rf"([0-9]{{1,2}})(?:er)? ({_any(_FRENCH_MONTHS)}) (?=(?:19|20)[0-9]{{2}}\b)", "{0} {1} "),
        (rf"([Ee]n|[Dd]epuis|[Aa]vant|[Aa]près|[Dd]ébut|[Ff]in) ({_any(_FRENCH_MONTHS)})", "{0} {1} "),
        exact=True,
    ),
    _mean("did", "qu'est-ce que qu'ai-je ai-je j'ai ai a avons avons-nous a-t-on on fait s'est-il s'est passé quoi "
                 "était c'était qu'avons-nous qu'a-t-on décidé discuté")
    | _mean("all", "je nous le la les l de du des et soir matin après-midi neuf"),
    # "hier" means here in German and Dutch.
    unless=frozenset(["ist", "gibt", "der", "das", "wie", "wer", "wo", "ich", "wir", "und", "sind", "hat", "is"]),
    alone=_between_words(
        ("avant-hier", "the day before yesterday"),
        (r"(?:d['\u2019])?hier", "yesterday"),
        (r"(?:d['\u2019])?aujourd['\u2019]hui", "today"),
        ("après-demain", "the day after tomorrow"),
        ("demain", "tomorrow"),
        exact=True,
    ),
    beside="que qui quand où est il elle une mon ma mes pour avec chez avant après hui",
)  # fmt: skip

_SPANISH_MONTHS: Final = _pair_words(
    "enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre", MONTHS
)
_SPANISH_DAYS: Final = _pair_words("lunes martes miércoles|miercoles jueves viernes sábado|sabado domingo", WEEKDAYS)
_SPANISH_COUNTS: Final = _pair_words("un|una|uno dos tres cuatro cinco seis siete ocho nueve diez once doce", _COUNTS)
_SPANISH_UNITS: Final = _pair_words(
    "día|días|dia|dias semana|semanas fin_de_semana mes|meses trimestre año|años verano invierno primavera otoño",
    _UNITS,
)
_SPANISH_NUMBER: Final = rf"(\d+|{_any(_SPANISH_COUNTS)})"
_SPANISH: Final = _Language(
    frozenset(_SPANISH_DAYS | _SPANISH_MONTHS | _SPANISH_UNITS) | {"ayer", "anteayer", "hoy", "mañana"},
    _SPANISH_MONTHS | _SPANISH_DAYS | _SPANISH_COUNTS | _SPANISH_UNITS | {"en": "in", "desde": "since"},
    _between_words(
        (rf"hace {_SPANISH_NUMBER} ({_any(_SPANISH_UNITS)})", "{0} {1} ago"),
        (rf"(?:el |la )?({_any(_SPANISH_UNITS | _SPANISH_DAYS)}) pasad[oa]", "last {0}"),
        (rf"(?:el |la )?pr[óo]xim[oa] ({_any(_SPANISH_UNITS | _SPANISH_DAYS)})", "next {0}"),
        (rf"(?:en |durante )?l[oa]s [úu]ltim[oa]s {_SPANISH_NUMBER} ({_any(_SPANISH_UNITS)})", "the last {0} {1}"),
        (rf"est[ea] ({_any(_SPANISH_UNITS)})", "this {0}"),
        (rf"(desde) el ({_any(_SPANISH_DAYS)})", "{0} {1}"),
        ((rf"(?:del|entre el) ([0-9]{{1,2}})(?: de ({_any(_SPANISH_MONTHS)}))? (?:al|y el) ([0-9]{{1,2}}) de "
          rf"({_any(_SPANISH_MONTHS)})(?: del?(?= ))?"), "{0} {1} to {2} {3} "),
        (rf"([0-9]{{1,2}}) de ({_any(_SPANISH_MONTHS)})(?: del?(?= ))?", "{0} {1} "),
    )
    + _between_words((rf"([Ee]n|[Dd]esde) ({_any(_SPANISH_MONTHS)})(?: del?(?= ))?", "{0} {1} "), exact=True),
    _mean("did", "qué que hice hicimos pasó hemos hecho he ha había fue decidimos")
    | _mean("all", "el la los las de por en yo tarde noche mañana"),
    alone=_between_words(
        ("anteayer|antes de ayer", "the day before yesterday"),
        ("ayer", "yesterday"),
        ("hoy", "today"),
        (_not_after("la las el una esta cada toda buena misma otra", "mañana"), "tomorrow"),
        exact=True,
    ),
    beside="quién cuándo dónde cómo está es hay tengo con mi una del",
)  # fmt: skip

# Chinese and Japanese have no blanks between words: what is part of something longer comes after it.
_EAST_DIGITS: Final = ("", *"一二三四五六七八九")
_EAST_COUNTS: Final = {
    f"{_EAST_DIGITS[ten] if ten > 1 else ''}{'十' if ten else ''}{one}": str(10 * ten + place)
    for ten in range(10)
    for place, one in enumerate(_EAST_DIGITS)
    if ten or place
} | {"两": "2", "兩": "2"}
_IN_NUMBER: Final = r"\d一二两兩三四五六七八九十百千万萬億亿〇零数數几幾何"
# What is part of a larger number, a range ("五、六日前") or a date ("三月三日前") is none.
_EAST_NUMBER: Final = rf"(?<![{_IN_NUMBER}.,第年月])(?<![{_IN_NUMBER}][、,，.~〜～-])(\d+|{_any(_EAST_COUNTS)})"
# "再来週", "大前天" and "一昨年" are further away, and 来年 is no word in 以来年間, nor 上周 in 早上周.
_EAST_BEFORE: Final = rf"(?<![{_IN_NUMBER}再上下大先昨さ々以未将將近马馬早晚网網])"
_MING: Final = "(?<![说說文发發聪聰光透证證声聲])"  # 说明天气
_WEEK: Final = "(?:週|周|个?星期|個星期)(?![一二三四五六日天末年期刊会會辺边邊囲围圍波率])の?"
_NO_DAY: Final = "(?![津子气氣性线線窗])"  # 明天津 and 目前天气 have no 明天 and no 前天
_EAST_DID: Final = (
    r"[はにの]*何(?:[をがか](?:しました|した|やった|ありました|あった|起きた|起きました))?か?(?![^?。？])"
)
_EAST: Final = _Language(
    frozenset("日天月年週周期曜今昨明"),
    _EAST_COUNTS
    | _pair_words("日|天 週間|周|週|星期 か月|ヶ月|カ月|ケ月|个月|個月 年", ("day", "week", "month", "year")),
    tuple(
        (compile_late(pattern), f" {english} ")
        for pattern, english in (
            (r"([12]\d{3})年(\d{1,2})月(\d{1,2})[日号]", "{0}-{1}-{2}"),
            (r"(\d{1,2})月(\d{1,2})[日号]", "{1}.{0}."),
            *((_EAST_BEFORE + named, english) for named, english in (
                (f"(?:一昨日|おととい|(?<![目之眼])前天{_NO_DAY})", "the day before yesterday"),
                (f"(?:昨日|昨天{_NO_DAY})", "yesterday"),
                (f"(?:今日(?![子头頭])|今天{_NO_DAY})", "today"),
                (f"(?:明後日|あさって|(?<![今之])[后後]天{_NO_DAY})", "the day after tomorrow"),
                (f"{_MING}(?:明日(?![香葉菜子方])|明天{_NO_DAY})", "tomorrow"),
                (f"[先上]{_WEEK}", "last week"),
                (f"(?<![日基])[今本这這]{_WEEK}", "this week"),
                (f"[来來下]{_WEEK}", "next week"),
                ("(?:先月|上个月|上個月)", "last month"),
                ("(?:今月|(?<![日基])本月|这个月|這個月)", "this month"),
                ("(?:来月(?!经|經)|下个月|下個月)", "next month"),
                ("(?:去年|昨年)(?!度)", "last year"),
                ("今年(?!度)", "this year"),
                (f"(?:来年|{_MING}明年)(?!度)", "next year"),
            )),
            (rf"{_EAST_NUMBER}(日|天|週間|周|週|星期|[かヶカケ个個]月|年)前(?![後后期半線线面往提])", "{0} {1} ago"),
            # What is left of a week is one that was not read: 再来週の金曜日, 毎週月曜日.
            *((f"(?<![週周毎每{_IN_NUMBER}])(?<![週周]の){day}曜日?", f"on {name}")
              for day, name in zip("月火水木金土日", WEEKDAYS, strict=True)),
            (rf"(?<= ){_EAST_DID}|我?们?(?:做了什么|发生了什么)", "did"),
        )
    ),
    {},
)  # fmt: skip
