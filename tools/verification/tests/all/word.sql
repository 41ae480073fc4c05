-- guard: word in a copy | S1 | a_word_is_there(word that is)
a word that is to be there
-- guard: longer word in a copy | S1 | a_word_is_there(another word) | a new word
another word
