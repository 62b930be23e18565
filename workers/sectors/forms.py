"""Recognise standing wishes of German, French and Spanish by their forms, and questions, which are no wishes. Pure.

The model of `wishes` was taught in English. Here a clause asks for something for good: an order with "always" or
"never" ("Antworte immer ..."), a preference ("Je préfère ..."), a name to be called by ("Llámame ..."). A sentence
about somebody's habits has another order: only an order begins with the verb.
"""

from typing import Final

from engramq.schemas.patterns import compile_late

_CHARACTERS: Final = 500  # in longer texts these words tell of something

_GERMAN: Final = (
    "antworte|benutze?|verwende|nutze?|nimm|gib|nenne?|schreibe?|sprich|sprech|formuliere|halte?|zeige?|"
    "frage?|prüfe?|teste|achte|vermeide|lass|mache?|erkläre?|fasse?|übersetze?|runde|zitiere|sage?|beginne|"
    "beende|führe?|rechne|sortiere|füge?|erwähne|empfiehl|schlage?|plane|buche?|bestelle?|lösche?|speichere|"
    "sende|schicke?|rufe?|warte|denke?|setze?|stelle?|bleibe?|sei|erinnere|prüf|"
    "(?:antworten|benutzen|verwenden|nutzen|nehmen|geben|nennen|schreiben|sprechen|zeigen|fragen|erklären) sie"
)
_GERMAN_INFINITIVE: Final = (
    "(?:antworten|benutzen|verwenden|nutzen|nehmen|nennen|schreiben|dazuschreiben|zeigen|fragen|erklären|angeben)"
)
_FRENCH: Final = (
    "réponde?[sz]|utilisez?|écri(?:s|vez)|donnez?|parlez?|expliquez?|fai(?:s|tes)|évitez?|gardez?|citez?|"
    "commencez?|terminez?|vérifiez?|demandez?|montrez?|affichez?|di(?:s|tes)|sois|soyez|mets|mettez|prends|"
    "prenez|traduis(?:ez)?|résumez?|proposez?|arrondis(?:sez)?|lancez?|exécutez?|ajoutez?|supprimez?|envoyez|"
    "envoie|préviens|rappelle|réserve[sz]?|indiquez?|mentionnez?|posez?|recommandez?"
)
_SPANISH: Final = (
    "usa|use|utili[zc][ae]|respond[ae]|contest[ae]|escrib[ae]|habla|hable|explica|explique|evit[ae]|d[aáeé]|"
    "di|diga|haz|haga|pon|ponga|muestr[ae]|cit[ae]|empie[zc][ae]|termin[ae]|revis[ae]|pregunt[ae]|resum[ae]|"
    "traduce|traduzca|redonde[ae]|ejecut[ae]|añad[ae]|borra|envía|avis[ae]|indi(?:ca|que)|mantén|sé|"
    r"reserv[ae]|comprueba|guarda|dime|dame|ponme|hazme|\w*[áéíóú]\w*(?:me|nos)"
)
_SPANISH_NOT: Final = (
    "uses|utilices|respondas|contestes|escribas|hables|des|digas|hagas|pongas|muestres|cites|empieces|"
    "termines|preguntes|borres|envíes|menciones|incluyas|añadas|ejecutes|recomiendes|sugieras|llames|supongas|"
    "olvides"
)
_SPANISH_ORDER: Final = f"(?:{_SPANISH}|no (?:me )?(?:{_SPANISH_NOT}))"
_SHORT: Final = r"(?: [^\s,]+){0,5}?"  # words between a verb and its adverb
_GERMAN_ALWAYS: Final = (
    r"(?:immer|nie|niemals|stets|grundsätzlich|künftig|jedes mal|ausschließlich)\b(?! (?:noch|wieder))"
)
_LANGUAGES: Final = {
    "german": (
        rf"(?:{_GERMAN})\b{_SHORT} {_GERMAN_ALWAYS}",
        rf"(?:immer|nie|niemals)\b.* {_GERMAN_INFINITIVE}$",
        r"(?:antworten|rückfragen) (?:immer|nie)\b",
        r"bitte (?:in zukunft |künftig )?(?:immer|nie|niemals)\b",
        r"(?:bitte |ich (?:will|mag|möchte) )?keine? (?:emojis|langen antworten|rückfragen|floskeln|englischen)\b",
        rf"(?:ab jetzt|ab sofort|von (?:jetzt|nun) an|künftig|in zukunft),? (?:bitte|(?:{_GERMAN})\b)",
        r"ich (?:bevorzuge|mag lieber|ziehe \S+ .*\bvor$)",
        r"mir (?:ist|sind) .*\blieber$",
        r"ich (?:möchte|will|wünsche mir)(?: bitte)?, dass du\b",
        r"ich hätte gerne? immer\b",
        r"ich mag es(?: nicht)?, wenn du\b",
        r"(?:du|sie) soll(?:st|en) (?:immer|nie|niemals)\b",
        r"nenne? mich\b|duze mich\b|sieze mich\b|sprich mich\b",
        rf"wenn ich .*(?:frage|bitte|schreibe|sage),? (?:{_GERMAN})\b",
    ),
    "french": (
        rf"(?:{_FRENCH})(?:-(?:moi|nous))?\b{_SHORT} (?:toujours|systématiquement|uniquement|à chaque fois)\b",
        rf"n(?:e |['’])(?:me |nous )?(?:{_FRENCH}|envoie)\b(?:{_SHORT} jamais\b| plus (?:d['’]|de |jamais\b))",
        r"toujours (?:répondre|utiliser|écrire|donner|citer|demander|montrer|vérifier)\b",
        r"merci de (?:toujours|ne (?:jamais|plus))\b",
        r"pas d['’](?:emojis?|anglicismes?|excuses?)\b",
        rf"(?:désormais|dorénavant|à partir de maintenant|à l['’]avenir),? (?:ne |n['’])?(?:{_FRENCH})\b",
        r"je préf(?:ère|érerais)\b",
        r"(?:je (?:veux|voudrais|souhaite)|j['’]aimerais) que (?:tu|vous)\b",
        r"(?:j['’]aime|je n['’]aime pas) (?:quand|que) (?:tu|vous)\b",
        r"(?:tu|vous) (?:dois|devez) toujours\b|(?:tu|vous) ne (?:dois|devez) jamais\b",
        r"(?:appelle|appelez)-moi\b(?! (?:une?|quand|si|dès|à|pour)\b)|tutoie-moi\b|vouvoie-moi\b|tutoyez-moi\b",
        rf"quand je (?:demande|pose|écris|parle)\b.*, (?:{_FRENCH})\b",
    ),
    "spanish": (
        rf"(?:{_SPANISH})\b{_SHORT} siempre\b|siempre (?:{_SPANISH})\b",
        rf"no (?:me )?(?:{_SPANISH_NOT})\b{_SHORT} nunca\b|(?:nunca|jamás) (?:me )?(?:{_SPANISH_NOT})\b(?! nunca)",
        r"(?:usar|utilizar|responder|escribir|evitar|poner|citar|mostrar) siempre\b",
        r"(?:siempre|nunca) debes\b|debes siempre\b|no debes nunca\b",
        r"(?:sin|nada de) (?:emojis|anglicismos|tablas|disculpas)\b",
        rf"(?:de ahora en adelante|a partir de ahora|en adelante|en el futuro),? {_SPANISH_ORDER}\b",
        r"(?:yo )?prefer?iría\b|(?:yo )?prefiero\b",
        r"quiero que (?:siempre|nunca|me|no|seas)\b",
        r"me gustaría que (?:siempre|nunca|me|no)\b|(?:no )?me gusta que (?:me|te|uses|respondas)\b",
        r"llámame\b(?! (?:una?|cuando|si|a|para)\b)|tutéame\b|trátame\b|háblame de (?:tú|usted)\b",
        rf"cuando (?:te )?(?:pida|pregunte|escriba|hable)\b.*, (?:{_SPANISH})\b",
    ),
}
_LEAD: Final = (
    r"[\W_]*(?:(?:bitte|und|aber|auch|merk dir|regel|hinweis|s['’]il (?:te|vous) pla[iî]t|et|mais|aussi|retiens|règle|"
    r"por favor|y|pero|también|recuerda|regla)\b[\s,:]*)*"
)
_WISH: Final = compile_late(_LEAD + "(?:" + "|".join(form for forms in _LANGUAGES.values() for form in forms) + ")")
_ONCE: Final = compile_late(
    r"\b(?:heute|morgen|diesmal|jetzt gerade|aujourd['’]hui|demain|ce soir|cette fois|hoy|mañana|esta (?:vez|noche)|"
    r"sagte|sagt|dit|disait|dice|dijo|decía)\b"
)
_CLAUSE: Final = compile_late(r"(?<=[.!?;:])\s+|\n+|\s[-–]\s")
_REQUEST: Final = compile_late(
    r"\W*(?:(?:please|bitte|and|so|ok)\W+)*(?:can|could|would|will) you (?:please |always |never )"
)

ABOUT_ANSWERS: Final = (
    r"antwort\w*|kurze?n?|deutsch|englisch\w*|emojis|tabellen|stichpunkten|duze|sätzen|réponses?|répond\w*|français|phrases?|"
    r"tutoie-moi|vouvoie-moi|appelle-moi|respuestas?|respond\w*|español|frases|tutéame|trátame|llámame"
)
CONJUNCTIONS: Final = "wenn|falls|quand|lorsque|cuando"


def says_wish(content: str) -> bool:
    """Say whether a clause of a short text has the form of a standing wish in German, French or Spanish."""
    if len(content) > _CHARACTERS:
        return False
    clauses = (clause.strip() for clause in _CLAUSE.split(content.lower()))
    return any(
        not clause.endswith("?") and _ONCE.search(clause) is None and _WISH.match(clause.rstrip(" .!")) is not None
        for clause in clauses
    )


def only_asks(content: str) -> bool:
    """Say whether a text is a question alone; "can you always ..." is a request in its form."""
    clauses = [clause.strip() for clause in _CLAUSE.split(content[:_CHARACTERS].lower()) if clause.strip()]
    return bool(clauses) and all(clause.endswith("?") and _REQUEST.match(clause) is None for clause in clauses)
