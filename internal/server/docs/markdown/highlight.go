package markdown

import (
	"html"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/util"
)

// lexerNames maps names of languages in documents to those of chroma.
var lexerNames = map[string]string{"sh": "bash", "shell": "bash", "ts": "typescript", "py": "python", "js": "javascript"}

// highlight writes code with a few classes for colours. Unknown languages stay plain.
func highlight(out util.BufWriter, language, content string) {
	if longer, ok := lexerNames[language]; ok {
		language = longer
	}
	lexer := lexers.Get(language)
	if language == "" || lexer == nil {
		emit(out, html.EscapeString(content))
		return
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, content)
	if err != nil {
		emit(out, html.EscapeString(content))
		return
	}
	open, left := "", len(content) // Some lexers add a line break.
	for token := tokens(); token != chroma.EOF && left > 0; token = tokens() {
		words := token.Value
		if len(words) > left {
			words = words[:left]
		}
		left -= len(words)
		class := classOf(token.Type)
		if class != open {
			if open != "" {
				emit(out, "</span>")
			}
			if class != "" {
				emit(out, `<span class="`, class, `">`)
			}
			open = class
		}
		emit(out, html.EscapeString(words))
	}
	if open != "" {
		emit(out, "</span>")
	}
}

// classOf returns the class of a token; empty for plain text. The style sheet has exactly these classes.
func classOf(t chroma.TokenType) string {
	switch {
	case t == chroma.KeywordConstant, t == chroma.LiteralNumber, t.InSubCategory(chroma.LiteralNumber):
		return "hn"
	case t.InCategory(chroma.Keyword), t == chroma.OperatorWord:
		return "hk"
	case t.InSubCategory(chroma.LiteralString):
		return "hs"
	case t.InCategory(chroma.Comment):
		return "hc"
	case t == chroma.NameFunction, t == chroma.NameClass, t == chroma.NameBuiltin, t == chroma.NameDecorator, t == chroma.NameFunctionMagic:
		return "hf"
	case t == chroma.NameTag, t == chroma.NameAttribute, t == chroma.NameVariable, t == chroma.NameProperty:
		return "ha"
	case t == chroma.GenericDeleted:
		return "hd"
	}
	return ""
}
