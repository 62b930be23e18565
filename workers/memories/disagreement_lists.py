"""The words by which statements are compared: numbers, units, opposites, verbs. English. No I/O."""

from typing import Final


def split(words: str) -> list[str]:
    return words.split()


def set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


EMPTY: Final = set_of(
    "a an the this that these those it its of to in on at by for from with as and or be been being am is are was were "
    "do does did has have had having will would shall should may might must can could i'm i've i'd i'll it's there "
    "here so then than just also too very really now currently still already yet any more anymore longer ever before "
    "some about around exactly roughly i me my mine we us our ours you your he him his she her hers they them their "
    "who which what up into over per all each every like such someone something only"
)
NOT: Final = set_of("not never no none nobody nothing neither nor cannot without")
UNREAL: Final = set_of(
    "if unless except whether either maybe perhaps would could should might wish hope want plan worried wondering here"
) | {"had never"}  # until then
NUMBERS: Final = {
    word: str(number)
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen",
        "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    )
    for number, word in enumerate(words.split())
}
# What is written in several ways beside a number.
UNITS: Final = dict(
    pair.split("/")
    for pair in split(
        "euro/eur euros/eur dollar/usd dollars/usd bucks/usd pound/gbp pounds/gbp minutes/min minute/min mins/min "
        "hours/h hour/h hrs/h seconds/s second/s secs/s sec/s percent/pct kilometres/km kilometers/km metres/m "
        "meters/m kilograms/kg kilos/kg"
    )
)
MONTHS: Final = split("january february march april may june july august september october november december")
DAYS: Final = set_of("monday tuesday wednesday thursday friday saturday sunday")
PAIRS: Final = (
    "on/off before/after open/closed enabled/disabled enable/disable accepted/rejected accept/reject loves/hates "
    "love/hate likes/dislikes like/dislike faster/slower fast/slow automatic/manual automatically/manually "
    "married/divorced married/single more/less up/down true/false allowed/forbidden allow/forbid "
    "increase/decrease increased/decreased always/sometimes required/optional public/private passed/failed "
    "pass/fail succeeded/failed hot/cold big/small large/small high/low higher/lower early/late safe/unsafe "
    "encrypted/unencrypted "
    "synchronous/asynchronous mutable/immutable approved/rejected active/inactive possible/impossible inside/outside "
    "left/right started/stopped alive/dead full/empty present/absent easy/hard cheap/expensive agrees/disagrees "
    "agree/disagree"
)
IRREGULAR: Final = dict(
    pair.split("/")
    for pair in split(
        "kept/keep met/meet wrote/write written/write took/take taken/take ran/run bought/buy made/make "
        "began/begin chose/choose gave/give given/give sent/send built/build lost/lose paid/pay sold/sell "
        "won/win held/hold led/lead spoke/speak children/child"
    )
)
OPPOSITES: Final = frozenset(frozenset(pair.split("/")) for pair in PAIRS.split())
OPPOSED: Final = frozenset[str]().union(*OPPOSITES)
# By these a thing has one value, and by those as many as one likes.
ONE_VALUE: Final = set_of(
    "is are was were prefer prefers live lives works called named default favourite favorite deploy deploys hosted "
    "hosts located based written stored kept sign signs runs run reports born listens points uses use using chose "
    "picked"
)
MANY_VALUES: Final = set_of(
    "has have had like likes love loves enjoy enjoys support supports visit visited buy bought read reads speak speaks "
    "know knows ate eat eats met made added wrote saw watched played plays wants includes contains offers sells got "
    "another also too both among sometimes often once there went did allergic intolerant afraid scared fond interested "
    "responsible fluent certified skilled familiar"
)
# Of what is called so there is one, whatever is said of it: "the default branch is main".
ONE_OF_A_KIND: Final = set_of(
    "default favourite favorite main primary current preferred password username branch region"
)

VERBS: Final = set_of(
    "is are was were has have had do does did can must will should may might costs needs takes ends starts begins "
    "lives works uses runs keeps keep kept allows allow need use deploy sign listen prefer live expires opens closes "
    "moved leaves departs arrives"
)
NOW: Final = set_of(
    "is are am be has have do does can must will should may needs starts ends begins was were due leaves "
    "departs arrives"
)
ONCE: Final = set_of(
    "born moved founded married died graduated joined launched released hired retired started agreed decided planned "
    "scheduled limited"
)
ONCE_OR_NOW: Final = NOW | ONCE
SETS: Final = VERBS | set_of("due set fixed booked postponed delayed extended expected on up down")
# Things that are counted or numbered: in English, German, French and Spanish.
NUMBERED: Final = (
    set_of(
        "build sprint version release issue ticket chapter step phase week day episode part round season test run pr "
        "bug room session lesson question section figure page line level task stage note request item order invoice "
        "parcel delivery incident no nr case batch visit call meeting entry shift seat flight train trip lot number "
        "package bowl shelf box"
    )
    | set_of(
        "kapitel folge seite zeile zimmer raum sitzung notiz rechnung bestellung auftrag lieferung paket schritt woche "
        "tag nummer schale regal"
    )
    | set_of("chapitre facture commande colis page ligne salle note étape semaine numéro bol")
    | set_of("capítulo factura pedido paquete página nota semana número")
)
TODAY: Final = set_of("today yesterday tomorrow tonight heute gestern aujourd'hui ayer")  # each day another
# Values that are measured again and again.
MEASURED: Final = set_of("temperature humidity pulse reading meter balance score velocity weather")
COPULA: Final = set_of("is are was were be turned switched")
PARTICLES: Final = set_of("on up down")  # these say something where they stand for a state
