"""How times in questions of other languages are read: as their English ones, and names that look like them as none."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from engramq.workers.search.foreign_times import english_times
from engramq.workers.search.question import Question

ASKED_AT = datetime(2026, 12, 1, 12, tzinfo=ZoneInfo("UTC"))  # a Tuesday


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Was habe ich gestern gemacht?", "What did I do yesterday?"), ("vorgestern", "the day before yesterday"),
        ("Was war letzte Woche?", "What was last week?"), ("vor drei Tagen", "three days ago"),
        ("Was haben wir letzten Freitag beschlossen?", "What did we decide last Friday?"),
        ("Was steht morgen an?", "What will we do tomorrow?"), ("seit Montag", "since Monday"),
        ("Was geschah im Oktober?", "What happened in October?"), ("am Wochenende", "on the weekend"),
        ("in den letzten fünf Tagen", "in the last five days"), ("vor August", "before August"),
        ("zwischen dem 10. und 20. November", "10 to 20 November"), ("nach dem 25. April", "after 25 April"),
        ("Ende Mai", "late May"), ("letztes Jahr im Juni", "in June last year"), ("vor einem Jahr", "a year ago"),
        ("Qu'est-ce que j'ai fait hier ?", "What did I do yesterday?"), ("avant-hier", "the day before yesterday"),
        ("Que s\u2019est-il passé le mois dernier ?", "What happened last month?"),
        ("la semaine dernière", "last week"), ("il y a trois jours", "three days ago"), ("en mai", "in May"),
        ("ces trois derniers jours", "the last three days"), ("le 5 septembre", "5 September"),
        ("Qu'avons-nous décidé vendredi dernier ?", "What did we decide last Friday?"),
        ("du 3 au 17 août", "3 to 17 August"), ("depuis lundi", "since Monday"), ("ce mois-ci", "this month"),
        ("¿Qué hice ayer?", "What did I do yesterday?"), ("la semana pasada", "last week"),
        ("hace tres días", "three days ago"), ("el lunes pasado", "last Monday"), ("en septiembre", "in September"),
        ("昨日何をしましたか", "What did I do yesterday?"), ("先週の金曜日", "last week Friday"),
        ("三日前", "three days ago"),
        ("二十日前", "20 days ago"), ("三十年前", "30 years ago"), ("二十五天前", "25 days ago"),
        ("上个星期", "last week"), ("十五日前", "15 days ago"), ("in drei Tagen", "in 3 days"),
        ("en los últimos tres días", "in the last three days"), ("vor zwanzig Tagen", "20 days ago"),
        ("mañana", "tomorrow"),
        ("Was war am 3. April?", "What was on 3 April?"),
        ("Was mache ich am Montag morgen?", "What will I do on Monday?"),
        ("du 28 septembre au 3 octobre", "28 September to 3 October"), ("del 3 al 17 de agosto", "3 to 17 August"),
        ("del 28 de septiembre al 3 de octubre", "28 September to 3 October"),
        ("vom 28. September bis 3. Oktober", "28 September to 3 October"),
        ("10月12日", "October 12"), ("2026年10月12日", "2026-10-12"), ("上周我们做了什么", "What did we do last week?"),
    ],
)  # fmt: skip
def test_a_time_of_another_language_is_the_english_one(text: str, english: str) -> None:
    asked = Question(text, ASKED_AT)
    assert asked.is_only_of_time
    assert asked.days == Question(english, ASKED_AT).days


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize(
    ("text", "is_of_time"),
    [
        ("Wer macht den Notdienst im August?", True), ("Was hat der Hund gestern gefressen?", True),
        ("健太は先週何を買いましたか", True), ("Qui a appelé hier soir ?", True), ("Was gibt es hier?", False),
        ("Guten Morgen, Herr Morgen", False), ("Was war vor der Umstellung?", False), ("今日子さんの電話番号", False),
        ("Will Mayo be here in time?", False), ("Martes Ltd", False), ("Who is Chris Hoy?", False),
        ("What did A. J. Ayer write?", False), ("Where is the Heute newspaper?", False), ("Hoy Ltd, ¿qué es?", False),
        ("What am I to say to morgen labs?", False), ("Where did Demain Ltd send the weekend report?", False),
        ("the morgen", False), ("Was kostet jeden Montag morgen der Bus?", False), ("¿Qué hay por la mañana?", False),
        ("¿Cuándo es la cita de mañana?", True), ("小明昨天在哪里", True), ("今天天气", True),
    ],
)  # fmt: skip
def test_a_topic_beside_a_time_stays_what_is_asked(text: str, is_of_time: bool) -> None:
    asked = Question(text, ASKED_AT)
    assert asked.names_a_date is is_of_time
    assert not asked.is_only_of_time


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize(
    "text",
    [
        "一昨年", "再来週", "再来週の金曜日", "先々週", "上上周", "下下个月", "大前天", "明天津", "今天子",
        "上周五", "上个星期五", "今週末", "毎週金曜日", "早上周五", "日本周辺", "以来年間", "目前天气", "说明天气",
        "今日头条", "今年度", "一百二十天前", "两三天前", "五、六日前", "三月三日前", "三日前後", "三年前期",
        "第二金曜日",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_time_of_the_east_is_none(text: str) -> None:
    assert english_times(text) == text


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize(
    "text",
    [
        "What about Mars 2020?", "Who ate 3 Mars bars?", "Where are the 4 mars samples?", "What did Julio 2024 say?",
        "Mai 2020 sings", "How many of 5 Mai Tais?", "the 3 mayo jars", "Avril 2004", "2 juan and 3 julio",
    ],
)  # fmt: skip
def test_a_name_like_a_foreign_month_is_no_date(text: str) -> None:
    asked = Question(text, datetime(2026, 11, 28, 12, tzinfo=ZoneInfo("UTC")))
    assert english_times(text) == text
    assert not {"March", "May", "July", "April"} & set(asked.spellings.split())


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Was war am 3. März 2026?", "2026-03-03"), ("3. Mai 2026", "2026-05-03"), ("le 3 mars 2026", "2026-03-03"),
        ("le 1er août 2026", "2026-08-01"), ("le 3 aout 2026", "2026-08-03"), ("5 de julio de 2026", "2026-07-05"),
        ("im Mai 2026", "2026-05"), ("en mars 2026", "2026-03"), ("en julio de 2026", "2026-07"),
    ],
)  # fmt: skip
def test_a_date_in_the_form_of_its_language_is_read(text: str, day: str) -> None:
    assert day in Question(text, datetime(2026, 11, 28, 12, tzinfo=ZoneInfo("UTC"))).spellings.split()
