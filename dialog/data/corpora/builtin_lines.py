"""What the built-in corpus says: the values of its slots and the lines of its scenarios.

A slot in braces holds a value of its kind, which is its name without a closing 2; a value stands inside a
sentence, never at its beginning, so that its tokens are the same wherever it is said.
"""

from __future__ import annotations

from typing import NamedTuple


class Scenario(NamedTuple):
    """Two speakers who take turns, the lines with which they state facts, and what is asked about these facts.

    `opening` holds the phrasings of each of the first turns, all with the same slots. The next to speak asks.
    A question and its answer stand together, so that the question's wording settles the answer's.
    """

    speakers: tuple[str, str]
    opening: tuple[tuple[str, ...], ...]
    questions: tuple[tuple[str, str], ...]


REACTIONS = ("Thank you.", "Good.", "I see.")
"""With one of these begins every question that follows an answer."""

_WORDS = {
    "name": "Adam Alice Anna Boris Clara David Elena Emma Felix Grace Hugo Ida Ivan Julia Laura Leo Maria Martin Nina "
    "Oscar Paul Rosa Simon Vera",
    "time": "one two three four five six seven eight nine ten eleven twelve",
    "count": "two three four five six seven eight nine ten eleven twelve",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "dish": "burger curry dumplings goulash lasagne noodles omelette pancakes pasta pizza risotto salad salmon soup "
    "stew trout",
    "drink": "beer cider cocoa coffee juice lemonade milk tea water wine",
    "place": "beach bridge castle garden harbour lake library market museum park theatre zoo",
    "colour": "black blue brown green grey pink purple red white yellow",
    "item": "bag book camera coat hat jacket phone scarf wallet watch",
}

VALUES: dict[str, tuple[str, ...]] = {kind: tuple(words.split()) for kind, words in _WORDS.items()}

SCENARIOS: dict[str, Scenario] = {
    "table": Scenario(
        ("guest", "waiter"),
        (
            (
                "Hello, my name is {name}. A table for {count}, please.",
                "Hello, a table for {count}, please. My name is {name}.",
            ),
            (
                "Gladly. Please come on {day} at {time}. The band plays at {time2}.",
                "Sure. The band plays at {time2}. Please come at {time} on {day}.",
            ),
        ),
        (
            ("How many seats do I have?", "You have {count} seats."),
            ("Under what name is it?", "It is under {name}."),
            ("Which day is it?", "It is on {day}."),
            ("When should I come?", "Please come at {time}."),
            ("When does the band play?", "The band plays at {time2}."),
        ),
    ),
    "hotel": Scenario(
        ("guest", "clerk"),
        (
            (
                "Hello, my name is {name}. I booked {count} nights.",
                "Hello, I booked {count} nights. My name is {name}.",
            ),
            (
                "Welcome. You are in the {colour} room. Breakfast is at {time}.",
                "Welcome. Breakfast is at {time}. You are in the {colour} room.",
            ),
        ),
        (
            ("How many nights did I book?", "You booked {count} nights."),
            ("Under what name is it?", "It is under {name}."),
            ("Which room is mine?", "Yours is the {colour} room."),
            ("When is breakfast?", "Breakfast is at {time}."),
        ),
    ),
    "lost": Scenario(
        ("visitor", "clerk"),
        (
            ("Hello, I lost my {colour} {item}.", "Hello, did you find a {colour} {item}?"),
            ("Oh no. Where was that?", "I am sorry. What happened?"),
            ("I was at the {place} on {day}.", "On {day} I was at the {place}."),
        ),
        (
            ("What did you lose?", "I lost my {item}."),
            ("What colour is it?", "The colour is {colour}."),
            ("Where did you lose it?", "I lost it at the {place}."),
            ("Which day was it?", "It was on {day}."),
        ),
    ),
    "dinner": Scenario(
        ("guest", "friend"),
        (
            ("I will have the {dish} and some {drink}.", "I will have some {drink} and the {dish}."),
            ("For me the {dish2} and some {drink2}.", "For me some {drink2} and the {dish2}."),
        ),
        (
            ("What will I eat?", "You will have the {dish}."),
            ("What will you eat?", "I will have the {dish2}."),
            ("What will I drink?", "You will have some {drink}."),
            ("What will you drink?", "I will have some {drink2}."),
        ),
    ),
    "weekend": Scenario(
        ("friend", "neighbour"),
        (
            ("Hello, how was your weekend?", "Hello, did you have a nice weekend?"),
            (
                "On Saturday I met {name} at the {place}. On Sunday I met {name2} at the {place2}.",
                "On Saturday I was at the {place} with {name}. On Sunday I was at the {place2} with {name2}.",
            ),
        ),
        (
            ("Where were you on Saturday?", "I was at the {place}."),
            ("Where were you on Sunday?", "I was at the {place2}."),
            ("Who was there on Saturday?", "I met {name}."),
            ("Who was there on Sunday?", "I met {name2}."),
        ),
    ),
    "pets": Scenario(
        ("friend", "neighbour"),
        (
            ("Hello, do you have pets?", "I love animals. And you?"),
            (
                "My cat {name} is {count} years old. My dog {name2} is {count2} years old.",
                "I have a cat called {name}, who is {count}, and a dog called {name2}, who is {count2}.",
            ),
        ),
        (
            ("What is the name of your cat?", "The name is {name}."),
            ("What is the name of your dog?", "The name is {name2}."),
            ("How old is your cat?", "It is {count} years old."),
            ("How old is your dog?", "It is {count2} years old."),
        ),
    ),
}
