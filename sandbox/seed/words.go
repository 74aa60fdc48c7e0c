package seed

var firstNames = []string{
	"Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo", "Iris", "Jon", "Kira", "Leo", "Mia", "Noah", "Olga", "Paul",
	"Quinn", "Rosa", "Sam", "Tess", "Uma", "Vic", "Wren", "Xeno", "Yara", "Zoe", "Aldo", "Bea", "Caro", "Dev", "Elif", "Fay",
}

var lastNames = []string{
	"Abbott", "Brandt", "Castro", "Dahl", "Evans", "Fuchs", "Grant", "Hale", "Ivers", "Jansen", "Keller", "Lopez", "Moreau",
	"Novak", "Okoro", "Price", "Quist", "Reyes", "Silva", "Turner", "Ueda", "Vance", "Weber", "Young", "Zeman",
}

var cities = []string{"Lisbon", "Austin", "Leeds", "Berlin", "Toronto", "Melbourne", "Bristol", "Miami"}

var countries = []string{"US", "US", "US", "GB", "GB", "DE", "CA", "AU", "FR", "NL", "BR", "MX", "SE", "IT", "ES"}

var fanLines = []string{
	"Good morning!", "Loved the last set.", "When is the next stream?", "You made my week.", "Happy to be here :)",
	"Is the long video still available?", "Thank you for answering!", "That song was perfect.", "How was the trip?",
	"Could you do one in the red dress?", "I am back after a month away.", "Just renewed, worth it.",
}

var creatorLines = []string{
	"Thank you, that is so kind!", "New set tonight, stay close.", "I saved one for you.", "Friday, nine o'clock!",
	"How have you been?", "This one is not on the feed.", "Ha, exactly!", "Long day, but a good one.", "You are the best.",
	"Behind the scenes, only here.", "Tell me which one you like more.", "See you at the stream.",
}

var postLines = []string{
	"First coffee, then everything else.", "Rehearsal day.", "The light in this room!", "You asked for more of these.",
	"Throwback to the summer tour.", "New week, new set.", "Which one should be the cover?", "Backstage, five minutes before.",
	"Rain outside, records inside.", "A small thank-you for three hundred days.",
}

var massLines = []string{
	"New set is up, and this one is only here.", "I made something for all of you.", "Weekend plans? I have one for you.",
	"The outtakes you asked for.", "Thank you for being here this month!", "Stream on Friday: bring questions.",
	"A letter, because I had too much coffee.", "Last chance for the summer set.",
}

// FanLine returns a sample message of a fan. n selects it.
func FanLine(n int) string { return fanLines[n%len(fanLines)] }

// CreatorLine returns a sample message of the creator. n selects it.
func CreatorLine(n int) string { return creatorLines[n%len(creatorLines)] }
