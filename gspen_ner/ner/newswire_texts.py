"""The names and sentence patterns from which `newswire` generates documents.

In a pattern, `{day}` is a word of `WORDS`, `{CITY}` a name of `NAMES`, and `{PER.long}` a form of the
document's ambiguous subject. `{LAST}` is a person's surname, `{NAT}` the adjective of a country, `{ANY}` a
person, place or organisation. `{S}`, in bare patterns, is the subject or, sometimes, `{ANY}`.
"""

from __future__ import annotations


def _list(text: str) -> tuple[str, ...]:
    """Return the words of a text; an underscore stands for a space inside a name."""
    return tuple(word.replace("_", " ") for word in text.split())


AMBIGUOUS = _list("""
    Aldridge Alton Ashford Barlow Beaumont Bedford Bradford Burton Camden Carlisle Carver Chester Clifton
    Dalton Denton Easton Elgin Fairfax Franklin Halden Hamilton Harlow Hartley Hastings Kendal Kingsley
    Kirkby Lancaster Langley Lincoln Lowell Madison Marlow Melrose Merton Milford Monroe Montrose Norwood
    Oakley Preston Radcliffe Ramsey Redmond Rutland Selby Sheldon Stafford Stanton Sterling Sutton Thornton
    Tilden Walton Warwick Wellington Weston Whitby Winslow Woodward
""")
WOMEN = _list("""
    Agnes Alice Anna Astrid Beatriz Camila Carla Chiara Clara Daniela Elena Emma Esther Fatima Grace Hana
    Helen Ingrid Irene Joan Julia Karin Laura Leila Lucia Maria Marta Mei Monika Nadia Nina Olga Petra Rosa
    Ruth Sofia Susan Teresa Vera Yuki
""")
MEN = _list("""
    Adam Ahmed Alan Andrei Anton Bruno Carlos Daniel David Erik Felix Frank Georg Hassan Henrik Igor Ivan
    Jan Jorge Karl Kenji Lars Luis Marco Martin Miguel Milan Nikolai Omar Oscar Paolo Pavel Peter Rafael
    Rajiv Stefan Thomas Tomas Victor Walter
""")
SURNAMES = _list("""
    Abbasi Acosta Almeida Andersen Bakker Baranov Bergman Bianchi Bozek Brandt Campos Castillo Chandra Costa
    Dimitrov Dubois Eriksen Farkas Fernandes Fischer Fontaine Fujita Gallo Garcia Georgiou Greco Gruber
    Gupta Haddad Hansen Hoffmann Horvath Ibrahim Ito Ivanov Jansen Jovanovic Kaplan Karlsen Keller Khan
    Kovacs Kowalski Kruger Kumar Larsen Laurent Leclerc Lindqvist Lopez Marchetti Mbeki Mendes Meyer Molina
    Moreau Mwangi Nakamura Navarro Nguyen Novak Nowicki Okafor Olsen Ortega Papadakis Petrov Popescu Ramos
    Ricci Rossi Saito Santos Schmidt Silva Sokolov Tanaka Varga Virtanen Weber
""")
CITIES = _list("""
    Aarhus Accra Amman Antwerp Athens Baku Barcelona Basel Beirut Belgrade Bergen Bogota Bratislava
    Bucharest Budapest Buenos_Aires Cape_Town Casablanca Dakar Dublin Geneva Genoa Ghent Graz Hamburg Hanoi
    Helsinki Jakarta Karachi Kiel Krakow La_Paz Lagos Leipzig Lima Lisbon Ljubljana Lyon Malaga Manila
    Marseille Montevideo Mumbai Nairobi New_Delhi Osaka Oslo Palermo Porto Prague Quito Riga San_Juan
    Santiago Sapporo Seoul Seville Tallinn Tampere Tunis Turin Utrecht Vilnius Zagreb
""")
_COUNTRIES = _list("""
    Argentina/Argentine Austria/Austrian Belgium/Belgian Brazil/Brazilian Bulgaria/Bulgarian Chile/Chilean
    Croatia/Croatian Denmark/Danish Ecuador/Ecuadorean Egypt/Egyptian Estonia/Estonian Finland/Finnish
    Ghana/Ghanaian Greece/Greek Hungary/Hungarian India/Indian Japan/Japanese Kenya/Kenyan Morocco/Moroccan
    Costa_Rica/Costa_Rican Norway/Norwegian Peru/Peruvian Poland/Polish Portugal/Portuguese Romania/Romanian
    South_Korea/South_Korean Sri_Lanka/Sri_Lankan Sweden/Swedish Turkey/Turkish Uruguay/Uruguayan
""")
DEMONYMS = dict(pair.split("/") for pair in _COUNTRIES)

WORDS: dict[str, tuple[str, ...]] = {
    "{first}": WOMEN + MEN,
    "{surname}": SURNAMES,
    "{city}": CITIES,
    "{country}": tuple(DEMONYMS),
    "{day}": _list("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "{month}": _list("January February March April May June July August September October November December"),
    "{few}": _list("two three four five six seven eight nine"),
    "{age}": tuple(str(age) for age in range(21, 75)),
    "{year}": tuple(str(year) for year in range(1921, 1999)),
    "{km}": tuple(str(distance) for distance in range(15, 400, 5)),
    "{goals}": _list("0 1 2 3 4"),
    "{result}": _list("1-0_(_halftime_0-0_) 2-0_(_halftime_1-0_) 2-1_(_halftime_1-1_) 3-1_(_halftime_0-1_)"),
    "{votes}": tuple(f"{ayes} to {ayes - gap}" for ayes in range(88, 240, 7) for gap in range(5, 60, 9)),
    "{hundreds}": tuple(f"{count:,}" for count in range(300, 24000, 100)),
    "{money}": tuple(f"{tenths / 10:.1f}" for tenths in range(12, 900)),
    "{percent}": tuple(f"{tenths / 10:.1f}" for tenths in range(3, 99)),
    "{share}": tuple(str(share) for share in range(11, 49)),
    "{date}": tuple(
        f"{y}-{m:02}-{d:02}" for y in range(2001, 2025) for m in range(1, 13) for d in range(1, 29)
    ),
}

NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "{PER}": ("PER", ("{first} {surname}",)),
    "{CITY}": ("LOC", ("{city}",)),
    "{COUNTRY}": ("LOC", ("{country}",)),
    "{CLUB}": (
        "ORG",
        _list("{city}_United {city}_Rovers {city}_Athletic {city}_Wanderers Dynamo_{city} Sporting_{city}"),
    ),
    "{FIRM}": (
        "ORG",
        _list("""
            {surname}_Holdings {surname}_&_{surname} {surname}_Brothers {surname}_Motors {surname}_Industries
            {surname}_,_{surname}_&_Co. Bank_of_{city} Bank_of_{country} {city}_Telecom {country}_Airlines
            Norvex Telvia Unimar Quantor Belcanto Astrelle
        """),
    ),
    "{AGENCY}": ("ORG", ("{surname} Foundation", "{city} Weather Office", "{city} Fire Service")),
    "{MUSEUM}": ("ORG", ("{surname} Museum", "{city} Opera", "{surname} Gallery", "{city} Theatre")),
    "{PARTY}": ("ORG", _list("Centre_Union Farmers_League Liberal_Front New_Democrats People_'s_Alliance")),
    "{CUP}": (
        "MISC",
        _list("Coastal_Cup Continental_Trophy Northern_Masters Four_Rivers_Tour Winter_Classic Bay_Games"),
    ),
    "{SUMMIT}": ("MISC", _list("Ocean_Summit Conference_on_Fisheries Forum_of_Small_States Water_Congress")),
    "{FESTIVAL}": (
        "MISC",
        _list("Lantern_Festival Festival_of_New_Music Autumn_Biennale Silver_Reel_Gala Book_Fair"),
    ),
}
ANY = (("{PER}",), ("{CITY}", "{COUNTRY}"), ("{CLUB}", "{FIRM}"))

ROLES = {
    "sports": _list("captain coach goalkeeper striker referee"),
    "business": _list("banker trader economist broker investor"),
    "politics": _list("minister senator opposition_leader ambassador governor"),
    "disaster": _list("fire_chief geologist rescue_worker engineer meteorologist"),
    "culture": _list("novelist conductor film_director actor sculptor"),
}
PLACE_KINDS = _list("town village district port suburb")
PLACE_FORMS = _list("{}_County Port_{} {}_Valley {}_Bay Upper_{}")
ORGANISATIONS = {
    "sports": (("football club", "Town"), ("athletics federation", "Athletics"), ("rowing club", "Rowing")),
    "business": (("insurer", "Insurance"), ("shipping group", "Lines"), ("software maker", "Corp.")),
    "politics": (("trade union", "Union"), ("polling institute", "Institute"), ("think tank", "Foundation")),
    "disaster": (("power company", "Energy"), ("relief agency", "Relief"), ("construction firm", "Group")),
    "culture": (("publishing house", "Press"), ("film studio", "Pictures"), ("record label", "Records")),
}

GENRES = {
    "sports": (
        "{CLUB} beat {CLUB} {result} in the {CUP} on {day} .",
        "{CLUB} {goals} {CLUB} {goals} , attendance {hundreds}",
        "{PER} scored twice as {CLUB} came from behind to win in {CITY} .",
        "{NAT} champion {PER} withdrew from the {CUP} with a knee injury .",
        "{CLUB} coach {PER} praised the spirit of the team after the {NAT} tour .",
        "{PER} of {COUNTRY} won the 10-kilometre race in {CITY} ahead of {PER} .",
        "The final of the {CUP} will be played in {CITY} in {month} , organisers said .",
        "{PER} , {age} , will miss the start of the {CUP} , the {NAT} team doctor said .",
    ),
    "business": (
        "{FIRM} said on {day} it would buy {FIRM} for {money} million dollars in cash .",
        "Shares of {FIRM} rose {percent} percent in {CITY} after the announcement .",
        "{FIRM} named {PER} chief executive with effect from {month} .",
        "The {NAT} central bank left interest rates unchanged , as analysts had expected .",
        "{PER} , an analyst at {FIRM} in {CITY} , said the {NAT} market remained weak .",
        "{COUNTRY} 's exports to {COUNTRY} fell {percent} percent in {month} .",
        "Net profit at {FIRM} fell to {money} million dollars in the quarter that ended in {month} .",
        "{NAT} regulators approved the merger of {FIRM} and {FIRM} .",
    ),
    "politics": (
        "{PER} , leader of the {PARTY} , rejected the offer made by {COUNTRY} on {day} .",
        "The {NAT} parliament approved the bill by {votes} late on {day} .",
        "Diplomats from {COUNTRY} and {COUNTRY} met in {CITY} ahead of the {SUMMIT} .",
        "{PER} will travel to {CITY} in {month} , the {NAT} foreign ministry said .",
        "Opinion polls give the {PARTY} {share} percent of the vote in {CITY} .",
        "{NAT} voters go to the polls in {month} after {few} years of coalition rule .",
        "{PER} accused the {PARTY} of blocking reform and called for a vote on {day} .",
        "Police in {CITY} said {hundreds} people had joined a march organised by the {PARTY} .",
    ),
    "disaster": (
        "Heavy rain flooded streets in {CITY} and closed the airport for {few} hours .",
        "An earthquake shook northern {COUNTRY} on {day} but caused no damage , officials in {CITY} said .",
        "The {AGENCY} sent blankets and tents to {few} villages in {COUNTRY} .",
        "Rescuers in {CITY} pulled {few} people from a collapsed house , {PER} , a doctor , said .",
        "Forecasters expect the storm to move from {COUNTRY} to {COUNTRY} by {day} .",
        "{PER} of the {AGENCY} said the water was falling slowly .",
        "{NAT} farmers fear that frost has ruined much of the crop around {CITY} .",
        "The damage in {CITY} was put at {money} million dollars , {NAT} television reported .",
    ),
    "culture": (
        "{PER} , the {NAT} poet , will read at the {FESTIVAL} in {CITY} .",
        "The {MUSEUM} has bought a painting by {PER} for {money} million dollars .",
        "Tickets for the {FESTIVAL} went on sale on {day} and were gone within {few} hours .",
        "{PER} sang {NAT} songs before a full house in {CITY} .",
        "Critics in {CITY} admired the new {NAT} film with {PER} in the leading role .",
        "{FIRM} will sponsor the {FESTIVAL} for another {few} years .",
        "{PER} 's new play opens the {FESTIVAL} on {day} .",
        "{PER} left the {MUSEUM} after {few} years as director .",
    ),
}
HEADLINES = {
    "sports": ("{CLUB} stun {CLUB} in {CUP}", "{LAST} leads {COUNTRY} to victory in {CITY}"),
    "business": ("{FIRM} to cut {hundreds} jobs in {COUNTRY}", "{NAT} shares fall on {FIRM} profit warning"),
    "politics": (
        "{COUNTRY} and {COUNTRY} agree to resume talks",
        "{LAST} quits {NAT} cabinet over spending plan",
    ),
    "disaster": ("Floods cut off {CITY} as rivers rise", "Storm leaves thousands without power in {COUNTRY}"),
    "culture": ("{LAST} wins top prize at {FESTIVAL}", "{NAT} film opens {FESTIVAL} in {CITY}"),
}

BARE = (
    "{S} was at the centre of the dispute again on {day} .",
    "Critics of {S} said little had changed since {month} .",
    "For {S} , it was the third setback in {few} weeks .",
    "{S} has come under pressure since the report was published on {day} .",
    "Few had expected so much attention for {S} , least of all {PER} .",
    "Nobody at {FIRM} would comment on {S} .",
    "{PER} declined to answer questions about {S} on {day} .",
    "The decision was seen as a blow to {S} and a relief for {ANY} .",
    '" Much now depends on {S} , " {PER} said .',
    "{S} , unlike {ANY} , is not mentioned in the report .",
    "There was no new information about {S} on {day} .",
    "The first months of the year had gone well for {S} .",
    "Support for {S} has grown since the events of last {month} .",
    "{S} stands to lose most if the plan fails .",
    "{NAT} newspapers devoted whole pages to {S} and {ANY} .",
    "Attention turned to {S} after the surprises of the past {few} days .",
    "{PER} said that {S} deserved better .",
    "{S} 's future was an open question again on {day} .",
    "But {S} has recovered from worse , as {ANY} has .",
)
BARE_HEADLINES = (
    "{S} faces new questions over talks",
    "New doubts over {S} after report",
    "{NAT} report puts {S} under pressure",
    "Hard week ahead for {S} , {ANY}",
    "{LAST} sees better times for {S}",
    "{S} hopes for a quieter year",
)

REVEALING = {
    "PER": (
        "{PER.title} {PER.long} , the {PER.noun} , said the decision would be explained on {day} .",
        "{PER.name} , the {PER.noun} , told reporters in {CITY} there was no reason to worry .",
        "{PER.long} , {age} , was born in {CITY} and studied in {COUNTRY} .",
        "{PER.title} {PER.name} left the meeting without speaking to reporters .",
        '" I have nothing to hide , " {PER.name} told a radio station in {CITY} .',
        "{PER.title} {PER.name} and {PER} shook hands before the cameras in {CITY} .",
        "{PER.name} , who married in {month} , thanked {PER} for years of friendship .",
    ),
    "LOC": (
        "About {hundreds} people live in the {LOC.noun} of {LOC.name} , north of {CITY} .",
        "Roads leading to {LOC.name} were closed and trains to {CITY} were delayed on {day} .",
        "In {LOC.name} , {km} kilometres south of {CITY} , shops opened as usual .",
        "The mayor of {LOC.name} , {PER} , asked residents to stay calm .",
        "{LOC.long} lies in eastern {COUNTRY} , close to the border .",
        "{PER} arrived in the {LOC.noun} of {LOC.name} on {day} after a flight from {CITY} .",
        "Hotels in {LOC.long} were full on {day} , the tourist office said .",
    ),
    "ORG": (
        "{ORG.name} , the {ORG.noun} , said its board would meet in {CITY} on {day} .",
        "{ORG.long} employs {hundreds} people and has offices in {CITY} and {CITY} .",
        "The board of {ORG.name} appointed {PER} as chief executive on {day} .",
        "{ORG.long} reported a loss of {money} million dollars for the year .",
        "{PER} , a spokesperson for {ORG.long} , confirmed the talks .",
        "The {ORG.noun} {ORG.name} was founded in {year} and is based in {CITY} .",
        "{ORG.name} hired {PER} as its finance director and cut {hundreds} jobs .",
    ),
}
DOUBLE = {
    ("LOC", "PER"): (
        "{PER.name} , the {PER.noun} , will visit the {LOC.noun} of {LOC.name} on {day} .",
        "Before leaving for the {LOC.noun} of {LOC.name} , {PER.title} {PER.name} spoke in {CITY} .",
    ),
    ("ORG", "PER"): (
        "{PER.title} {PER.name} joined {ORG.name} , the {ORG.noun} , after {few} years in {CITY} .",
        "{ORG.name} , the {ORG.noun} , was founded by the grandfather of {PER.long} in {year} .",
    ),
    ("LOC", "ORG"): (
        "{ORG.name} , the {ORG.noun} , has its main office in the {LOC.noun} of {LOC.name} .",
        "The board of {ORG.long} will meet in {LOC.name} , {km} kilometres from {CITY} , on {day} .",
    ),
}
