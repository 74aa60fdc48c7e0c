package docs

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/server/docs/markdown"
)

// index finds passages by their words.
type index struct {
	passages []passage
	// words are all words, sorted, so that words with a common prefix are neighbours.
	words    []string
	postings map[string][]posting
}

// passage is the text below one heading of a page.
type passage struct {
	page *page
	// id is that of the heading, heading its text; both are empty for the start of a page.
	id, heading, text, code string
	address                 string
	// bonus ranks passages among equals: guides before decision records.
	bonus float64
}

// posting is the occurrence of a word in a passage, with its weight.
type posting struct {
	passage int
	weight  float64
}

// result is one passage that was found.
type result struct {
	Title, Group, Path string
	Heading            []piece
	Excerpt            []piece
}

// piece is a part of a text; Hit marks search terms.
type piece struct {
	Text string
	Hit  bool
}

// Weights of a word by its position.
const (
	inTitle   = 6.0
	inHeading = 8.0
	inText    = 1.0
	inCode    = 0.5
)

// Limits of a search.
const (
	maxResults  = 24
	maxFromPage = 3
	maxTerms    = 12
)

// index indexes all pages.
func (t *site) index() *index {
	x := &index{postings: map[string][]posting{}}
	for _, p := range t.pages {
		for _, at := range passagesOf(p) {
			x.add(at)
		}
	}
	for word := range x.postings {
		x.words = append(x.words, word)
	}
	slices.Sort(x.words)
	return x
}

var groupBonus = map[string]float64{
	"Start": 1.3, "Recipes": 1.2, "Guides": 1.2, "Reference": 1.1,
	"Operations": 0.8, "Specification": 0.5, "For engineers": 0.5,
}

func passagesOf(p *page) (list []passage) {
	bonus := cmp.Or(groupBonus[p.group], 1)
	if p.parent != nil && p.kind == nil {
		bonus = 1
	}
	source := p.source
	if p.generated != nil {
		source = []byte(p.generated.Intro)
		list = append(list, passage{page: p, text: p.lead, bonus: bonus})
	}
	if p.generated == nil || !p.generated.Index {
		doc, err := markdown.Render(source, markdown.Options{Link: nil, Prefix: "", Plain: true})
		if err != nil {
			return nil // Unreachable: the page was rendered before.
		}
		for _, at := range doc.Passages {
			list = append(list, passage{page: p, id: at.ID, heading: at.Heading, text: at.Text, code: at.Code, bonus: bonus})
		}
	}
	if p.generated == nil {
		return list
	}
	for _, i := range p.generated.Items {
		text := plainText(i.Body)
		if i.Verb != "" {
			text = i.Verb + " " + i.Address + " " + text
		}
		for _, f := range i.Folds {
			if f.Title != "Problems" {
				text += "\n" + plainText(f.Body)
			}
		}
		list = append(list, passage{page: p, id: i.ID, heading: i.Title, text: text, address: i.Address, bonus: bonus})
	}
	return list
}

func plainText(source string) string {
	doc, err := markdown.Render([]byte(source), markdown.Options{Link: nil, Prefix: "", Plain: true})
	if err != nil || len(doc.Passages) == 0 {
		return ""
	}
	return doc.Passages[0].Text
}

func (x *index) add(p passage) {
	n := len(x.passages)
	x.passages = append(x.passages, p)
	weights := map[string]float64{}
	for word := range wordsOf(p.text) {
		weights[word] = min(weights[word]+inText, 4*inText) // More than four occurrences do not count.
	}
	for word := range wordsOf(p.code) {
		weights[word] = max(weights[word], inCode)
	}
	for word := range wordsOf(p.heading + " " + p.id) {
		weights[word] += inHeading
	}
	for word := range wordsOf(p.page.title + " " + p.page.label) {
		if p.heading == "" {
			weights[word] += inTitle * 2
		} else {
			weights[word] += inTitle / 3
		}
	}
	length := 1 + math.Log1p(float64(len(p.text))/600)
	for word, weight := range weights {
		x.postings[word] = append(x.postings[word], posting{n, weight / length * p.bonus})
	}
}

// wordsOf yields the words of a text in the form in which they are compared: lower case, without plural s. Names such
// as massMessages are yielded as a whole and in parts.
func wordsOf(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, field := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if !yield(stem(field)) {
				return
			}
			parts := camel(field)
			for _, part := range parts {
				if len(parts) > 1 && !yield(stem(part)) {
					return
				}
			}
		}
	}
}

func stem(word string) string {
	word = strings.ToLower(word)
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") && !strings.HasSuffix(word, "us") {
		return word[:len(word)-1]
	}
	return word
}

// camel splits a name such as massMessages.
func camel(name string) []string {
	var parts []string
	start := 0
	for i, r := range name {
		if i > start && unicode.IsUpper(r) && unicode.IsLower(rune(name[i-1])) {
			parts = append(parts, name[start:i])
			start = i
		}
	}
	return append(parts, name[start:])
}

// stopWords are ignored in queries.
var stopWords = []string{"a", "an", "and", "are", "can", "do", "doe", "for", "how", "i", "in", "is", "it", "my", "of", "on", "the", "to", "what", "when", "with"}

// find returns the passages that best match a query: those with most of its words at the most important positions.
func (x *index) find(question string) []result {
	terms := x.terms(question)
	if len(terms) == 0 {
		return nil
	}
	scores, matched := map[int]float64{}, map[int]int{}
	for _, term := range terms {
		for n, score := range x.score(term) {
			scores[n] += score
			matched[n]++
		}
	}
	whole := strings.ToLower(strings.TrimSpace(question))
	order := make([]int, 0, len(scores))
	for n := range scores {
		p := x.passages[n]
		scores[n] *= math.Pow(float64(matched[n])/float64(len(terms)), 3)
		if strings.EqualFold(p.heading, whole) || p.heading == "" && (strings.EqualFold(p.page.title, whole) || strings.EqualFold(p.page.label, whole)) {
			scores[n] *= 4
		}
		if p.address != "" && (p.address == whole || strings.HasSuffix(whole, " "+p.address)) {
			scores[n] *= 4
		}
		order = append(order, n)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	var found []result
	from := map[*page]int{}
	for _, n := range order {
		p := x.passages[n]
		if from[p.page]++; from[p.page] > maxFromPage {
			continue
		}
		if found = append(found, p.result(terms)); len(found) == maxResults {
			break
		}
	}
	return found
}

// terms returns the words of a query without stop words.
func (x *index) terms(question string) (terms []string) {
	for _, field := range strings.FieldsFunc(question, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if term := stem(field); !slices.Contains(terms, term) && !slices.Contains(stopWords, term) && len(terms) < maxTerms {
			terms = append(terms, term)
		}
	}
	return terms
}

// score returns how well each passage matches a term: by the word itself, and less by words that start with it.
func (x *index) score(term string) map[int]float64 {
	scores := map[int]float64{}
	from, _ := slices.BinarySearch(x.words, term)
	for _, word := range x.words[from:] {
		if !strings.HasPrefix(word, term) {
			break
		}
		list := x.postings[word]
		rare := math.Log(1 + float64(len(x.passages))/float64(len(list)))
		if word != term {
			rare *= 0.4
			if utf8.RuneCountInString(term) < 3 {
				continue
			}
		}
		for _, p := range list {
			scores[p.passage] = max(scores[p.passage], p.weight*rare)
		}
	}
	return scores
}

func (p passage) result(terms []string) result {
	r := result{Title: p.page.title, Group: p.page.group, Path: p.page.path}
	if p.page.parent != nil {
		r.Group = p.page.parent.label
	}
	if p.id != "" {
		r.Path += "#" + p.id
	}
	if p.heading != "" {
		r.Heading = mark(p.heading, terms)
	}
	r.Excerpt = mark(excerpt(p.text, terms), terms)
	return r
}

// excerptLength is about the length of an excerpt, in bytes.
const excerptLength = 200

// excerpt returns the part of a text around the first search term.
func excerpt(text string, terms []string) string {
	text = strings.Join(strings.Fields(text), " ")
	lower, at := strings.ToLower(text), -1
	for _, term := range terms {
		if found := strings.Index(lower, term); found >= 0 && (at < 0 || found < at) {
			at = found
		}
	}
	start := max(0, at-excerptLength/3)
	if start > 0 && start < len(text) {
		if space := strings.IndexByte(text[start:], ' '); space >= 0 {
			start += space + 1
		}
	}
	end := min(len(text), start+excerptLength)
	if start > end {
		start = 0
	}
	if space := strings.LastIndexByte(text[:end], ' '); end < len(text) && space > start {
		end = space
	}
	cut := strings.ToValidUTF8(text[start:end], "")
	if start > 0 {
		cut = "… " + cut
	}
	if end < len(text) {
		cut += " …"
	}
	return cut
}

// mark splits a text at the search terms.
func mark(text string, terms []string) []piece {
	var pieces []piece
	add := func(words string, hit bool) {
		if n := len(pieces); n > 0 && pieces[n-1].Hit == hit {
			pieces[n-1].Text += words
		} else if words != "" {
			pieces = append(pieces, piece{words, hit})
		}
	}
	for len(text) > 0 {
		end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if end < 0 {
			end = len(text)
		}
		word := strings.ToLower(text[:end])
		add(text[:end], end > 0 && slices.ContainsFunc(terms, func(term string) bool { return strings.HasPrefix(word, term) }))
		text = text[end:]
		if len(text) > 0 {
			_, size := utf8.DecodeRuneInString(text)
			add(text[:size], false)
			text = text[size:]
		}
	}
	return pieces
}
