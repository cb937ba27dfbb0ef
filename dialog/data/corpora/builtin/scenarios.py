"""Texts of the built-in corpus: the scenarios' lines and the values of their slots.

A slot in braces takes a value of the kind that it is named after. A final digit 2 marks the second
fact of a kind, 3 a fact about another person. A value never begins a sentence, so it has the same
tokens in every line. Lines that harder settings add contain no word that could answer a question of
the scenario.
"""

from __future__ import annotations

from typing import NamedTuple

Exchange = tuple[str, str]
"""A line of the asking speaker, and the other speaker's reply."""


class Scenario(NamedTuple):
    """Two alternating speakers, the lines that state facts, and the questions about these facts.

    `opening` lists the phrasings of each of the first turns; all phrasings of a turn have the same
    slots. The speaker of the next turn asks the questions. Each question is paired with its answer,
    so its wording determines the answer's.

    Harder settings add exchanges between opening and questions: `asides` about other people, and
    `corrections`, which restate a fact. The first corrections are the asking speaker's, the second
    the other's, each of facts that the same speaker stated. After added exchanges, `back`
    introduces the first question.
    """

    speakers: tuple[str, str]
    opening: tuple[tuple[str, ...], ...]
    questions: tuple[Exchange, ...]
    asides: tuple[Exchange, ...]
    corrections: tuple[tuple[str, ...], tuple[str, ...]]
    back: str


REACTIONS = ("Thank you.", "Good.", "I see.")
"""Openings of every question that follows an answer."""

SORRY = ("Sorry,", "Actually,", "Wait,")
"""Openings of every correction."""

CHECKS = (
    "Is there anything to correct?",
    "Was everything you told me right?",
    "Before I forget, did I get it all right?",
)
"""Questions that the other speaker answers with a correction."""

CONSENT = ("Of course.", "No problem.", "All right.")
"""Replies to a correction."""

SMALL_TALK: tuple[Exchange, ...] = (
    ("What lovely weather.", "Yes, the sun feels good."),
    ("The traffic was heavy this morning.", "It always is at this hour."),
    ("It is quiet today.", "Yes, most days are much louder."),
    ("What is that music?", "An old song on the radio."),
    ("Do you like the new road?", "Yes, it saves me a lot of driving."),
    ("Have you seen the news?", "No, I was too busy."),
    ("I like old pictures.", "So do I, above all those of ships."),
    ("Did you see the game last night?", "Yes, it was exciting until the end."),
    ("I slept badly last night.", "I am sorry to hear that."),
    ("I am learning to play the guitar.", "That takes a lot of practice."),
    ("Have you seen a good film lately?", "Yes, a comedy about sailors."),
    ("The trains are late again.", "They should build new tracks."),
    ("My back hurts a little.", "Perhaps you need some rest."),
    ("Prices go up and up.", "Yes, everything is dear now."),
    ("I like your shoes.", "You are kind, they are new."),
    ("Do you speak French?", "A little, from school."),
    ("Is the new bakery any good?", "Yes, the bread is excellent."),
    ("It gets dark so early now.", "Spring will come soon enough."),
    ("Did you grow up here?", "No, but I have lived here for years."),
    ("I should walk more.", "Walking is good for the heart."),
    ("Did you hear the thunder last night?", "Yes, it woke the whole street."),
    ("My computer is so slow.", "Mine is no faster."),
    ("I would love to travel more.", "Me too, to the mountains above all."),
    ("Do you play chess?", "Only with my children."),
)
"""Exchanges, for either speaker, that state no fact of any question."""

_WORDS = {
    "name": (
        "Adam Alice Anna Boris Clara David Elena Emma Felix Grace Hugo Ida Ivan Julia Laura Leo"
        " Maria Martin Nina Oscar Paul Rosa Simon Vera"
    ),
    "time": "one two three four five six seven eight nine ten eleven twelve",
    "count": "two three four five six seven eight nine ten eleven twelve",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "dish": (
        "burger curry dumplings goulash lasagne noodles omelette pancakes pasta pizza risotto salad"
        " salmon soup stew trout"
    ),
    "drink": "beer cider cocoa coffee juice lemonade milk tea water wine",
    "place": "beach bridge castle garden harbour lake library market museum park theatre zoo",
    "colour": "black blue brown green grey pink purple red white yellow",
    "person": (
        "boss classmate coach colleague cousin dentist doctor flatmate lawyer manager tailor"
        " teacher"
    ),
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
            ("How many seats do I have?", "You have {count} seats, {name}."),
            ("Under what name is it?", "It is under {name}, for {count}."),
            ("Which day is it?", "It is on {day} at {time}."),
            ("When should I come?", "Please come at {time} on {day}."),
            ("When does the band play?", "The band plays at {time2} on {day}."),
        ),
        (
            ("My {person} has a table for {count3}.", "I know, it is by the window."),
            ("My {person} comes on {day3} at {time3}.", "I look forward to it."),
            ("My {person} {name3} wants a table too.", "There is room on {day3}."),
            ("Do you have much to do?", "Yes, my {person} comes at {time3} with {count3} guests."),
            ("Is there music every day?", "On {day3} my {person} plays the piano at {time3}."),
        ),
        (
            ("I need {count} seats.", "please put my table under {name}."),
            (
                "you should come on {day}.",
                "you should come at {time}.",
                "the band plays at {time2}.",
            ),
        ),
        "Back to my table.",
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
            ("How many nights did I book?", "You booked {count} nights, {name}."),
            ("Under what name is it?", "It is under {name}, for {count} nights."),
            ("Which room is mine?", "Yours is the {colour} room, with breakfast at {time}."),
            ("When is breakfast?", "Breakfast is at {time}, for the {colour} room."),
        ),
        (
            ("My {person} booked {count3} nights.", "Everybody is welcome."),
            ("My {person} is in the {colour3} room.", "That room has a nice view."),
            ("My {person} has breakfast at {time3}.", "That is no trouble at all."),
            ("Did my {person} arrive?", "Yes, {name3} arrived at {time3}."),
            ("Do you live in the hotel?", "No, but my {person} lives in the {colour3} room."),
            (
                "My {person} {name3} was here for {count3} nights.",
                "I hope the bed was comfortable.",
            ),
        ),
        (
            ("I booked {count} nights.", "I booked under {name}."),
            ("you are in the {colour} room.", "your breakfast is at {time}."),
        ),
        "Back to my stay.",
    ),
    "lost": Scenario(
        ("visitor", "clerk"),
        (
            ("Hello, I lost my {colour} {item}.", "Hello, did you find a {colour} {item}?"),
            # so short that these turns are no pair by which splits are compared
            ("Oh no. Where?", "Oh, what happened?"),
            ("I was at the {place} on {day}.", "On {day} I was at the {place}."),
        ),
        (
            ("What did you lose?", "I lost my {colour} {item}."),
            ("What colour is it?", "The colour of the {item} is {colour}."),
            ("Where did you lose it?", "I lost it at the {place} on {day}."),
            ("Which day was it?", "It was on {day}, at the {place}."),
        ),
        (
            ("My {person} lost a {colour3} {item3}.", "That is a pity."),
            ("My {person} found a {item3} on {day3}.", "I hope the owner came."),
            ("My {person} works at the {place3}.", "That must be a nice job."),
            (
                "Has this happened to you before?",
                "No, but my {person} lost a {item3} at the {place3}.",
            ),
            ("Were you alone?", "No, my {person} was with me and had a {colour3} {item3}."),
            ("Did anybody help you?", "Yes, my {person} went to the {place3} on {day3}."),
        ),
        (
            (),
            (
                "I lost my {item}.",
                "what I lost was {colour}.",
                "I was at the {place}.",
                "I lost it on {day}.",
            ),
        ),
        "Now back to you.",
    ),
    "dinner": Scenario(
        ("guest", "friend"),
        (
            (
                "I will have the {dish} and some {drink}.",
                "I will have some {drink} and the {dish}.",
            ),
            ("For me the {dish2} and some {drink2}.", "For me some {drink2} and the {dish2}."),
        ),
        (
            ("What will I eat?", "You will have the {dish}, with some {drink}."),
            ("What will you eat?", "I will have the {dish2}, with some {drink2}."),
            ("What will I drink?", "You will have some {drink}, with the {dish}."),
            ("What will you drink?", "I will have some {drink2}, with the {dish2}."),
        ),
        (
            ("My {person} always has the {dish3} here.", "It must be good, then."),
            ("My {person} never drinks anything but {drink3}.", "Tastes differ."),
            ("My {person} would take the {dish3} with some {drink3}.", "That sounds good as well."),
            ("Who told you about this place?", "My {person}, who loves the {dish3}."),
            ("What do others have here?", "My {person} had the {dish3} and some {drink3}."),
        ),
        (
            ("I will have the {dish} instead.", "I will drink some {drink} instead."),
            ("I will have the {dish2} instead.", "I will drink some {drink2} instead."),
        ),
        "Back to our dinner.",
    ),
    "weekend": Scenario(
        ("friend", "neighbour"),
        (
            ("Hello, how was your weekend?", "Hello, did you have a nice weekend?"),
            (
                "On Saturday I met {name} at the {place}. On Sunday I met {name2} at the {place2}.",
                (
                    "On Saturday I was at the {place} with {name}. On Sunday I was at the {place2}"
                    " with {name2}."
                ),
            ),
        ),
        (
            ("Where were you on Saturday?", "I was at the {place} with {name}."),
            ("Where were you on Sunday?", "I was at the {place2} with {name2}."),
            ("Who was there on Saturday?", "I met {name} at the {place}."),
            ("Who was there on Sunday?", "I met {name2} at the {place2}."),
        ),
        (
            ("My {person} met {name3} at the {place3}.", "What a surprise."),
            ("My {person} {name3} works at the {place3}.", "That sounds like fun."),
            ("Do you know my {person}?", "Yes, everybody knows {name3}."),
            ("Do you go out often?", "No, but my {person} often goes to the {place3}."),
            ("Who else went out?", "My {person} was at the {place3} with {name3}."),
        ),
        (
            (),
            (
                "on Saturday I met {name}.",
                "on Saturday I was at the {place}.",
                "on Sunday I met {name2}.",
                "on Sunday I was at the {place2}.",
            ),
        ),
        "Back to your weekend.",
    ),
    "pets": Scenario(
        ("friend", "neighbour"),
        (
            ("Hello, do you have pets?", "I love animals. And you?"),
            (
                "My cat {name} is {count} years old. My dog {name2} is {count2} years old.",
                (
                    "I have a cat called {name}, who is {count}, and a dog called {name2}, who is"
                    " {count2}."
                ),
            ),
        ),
        (
            ("What is the name of your cat?", "The name is {name}, who is {count}."),
            ("What is the name of your dog?", "The name is {name2}, who is {count2}."),
            ("How old is your cat?", "My {name} is {count} years old."),
            ("How old is your dog?", "My {name2} is {count2} years old."),
        ),
        (
            ("My {person} has a cat called {name3}.", "I like that name."),
            ("My {person} has a dog, who is {count3} years old.", "That is a good age."),
            ("My {person} {name3} is afraid of dogs.", "Many people are."),
            ("Do your friends have pets?", "My {person} has a dog called {name3}."),
            ("Who feeds them when you are away?", "My {person}, whose cat is {count3} years old."),
        ),
        (
            (),
            (
                "my cat is called {name}.",
                "my cat is {count} years old.",
                "my dog is called {name2}.",
                "my dog is {count2} years old.",
            ),
        ),
        "Back to your pets.",
    ),
}
