package connectpages

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
)

//go:embed words/*.json
var wordFiles embed.FS

// words are the texts of one language by key.
type words struct {
	lang  string
	texts map[string]string
}

// consentVersion names the wording of what creators agree to. Change it with the texts of start.consent, start.can and
// can, and with any of their variants.
const consentVersion = "2026-11-18"

func loadWords() (map[string]words, error) {
	all := map[string]words{}
	for _, lang := range link.Locales() {
		file, err := wordFiles.ReadFile("words/" + lang + ".json")
		if err != nil {
			return nil, fmt.Errorf("read words: %w", err)
		}
		w := words{lang: lang}
		if err := json.Unmarshal(file, &w.texts); err != nil {
			return nil, fmt.Errorf("read words of %s: %w", lang, err)
		}
		all[lang] = w
	}
	return all, nil
}

// plain returns a text with its placeholders replaced: plain("start.body", "org", "Northlight").
func (w words) plain(key string, pairs ...string) (string, error) {
	text, ok := w.texts[key]
	if !ok || len(pairs)%2 != 0 {
		return "", fmt.Errorf("no words for %s in %s", key, w.lang)
	}
	filled := make([]string, 0, len(pairs))
	for i := 0; i < len(pairs); i += 2 {
		filled = append(filled, "{"+pairs[i]+"}", pairs[i+1])
	}
	return strings.NewReplacer(filled...).Replace(text), nil
}

// html is plain for a page: everything is escaped, and **text** becomes bold.
func (w words) html(key string, pairs ...string) (template.HTML, error) {
	escaped := slices.Clone(pairs)
	for i := 1; i < len(escaped); i += 2 {
		escaped[i] = template.HTMLEscapeString(escaped[i])
	}
	text, ok := w.texts[key]
	if !ok {
		return "", fmt.Errorf("no words for %s in %s", key, w.lang)
	}
	parts := strings.Split(template.HTMLEscapeString(text), "**")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "<b>" + parts[i] + "</b>"
	}
	filled := words{w.lang, map[string]string{key: strings.Join(parts, "")}}
	out, err := filled.plain(key, escaped...)
	return template.HTML(out), err
}

// date formats a day.
func (w words) date(t time.Time) (string, error) {
	list, err := w.plain("months")
	if err != nil {
		return "", err
	}
	months := strings.Fields(list)
	return w.plain("date", "day", strconv.Itoa(t.Day()), "month", months[t.Month()-1], "year", strconv.Itoa(t.Year()))
}

// chooseLang returns the language of a visit: that in the address, or else that of the session, of the browser, or
// English.
func chooseLang(r *http.Request, locale string) string {
	known := link.Locales()
	for _, lang := range []string{r.URL.Query().Get("lang"), locale} {
		if slices.Contains(known, lang) {
			return lang
		}
	}
	for _, lang := range preferredLangs(r.Header.Get("Accept-Language")) {
		if slices.Contains(known, lang) {
			return lang
		}
	}
	return known[0]
}

// preferredLangs returns the languages of an Accept-Language header without their regions, by preference.
func preferredLangs(header string) []string {
	type wish struct {
		lang string
		q    float64
	}
	var wishes []wish
	for part := range strings.SplitSeq(header, ",") {
		tag, parameters, _ := strings.Cut(part, ";")
		lang, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		q := 1.0
		if text, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			given, err := strconv.ParseFloat(text, 64)
			if err != nil {
				continue
			}
			q = given
		}
		if q > 0 {
			wishes = append(wishes, wish{lang, q})
		}
	}
	sort.SliceStable(wishes, func(i, j int) bool { return wishes[i].q > wishes[j].q })
	list := make([]string, len(wishes))
	for i, w := range wishes {
		list[i] = w.lang
	}
	return list
}
