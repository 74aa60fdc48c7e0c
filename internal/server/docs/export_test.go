package docs

// NavFiles returns the files in the navigation.
func NavFiles() (list []string) {
	for _, g := range nav {
		for _, e := range g.entries {
			if e.file != "" {
				list = append(list, e.file)
			}
		}
	}
	return list
}

// FullTexts returns the names of the files with all pages.
func FullTexts() []string { return textFiles()[1:] }

// Found is one result of a search.
type Found struct{ Title, Heading, Path string }

func (s *Docs) Search(question string) ([]Found, error) {
	t, err := s.site()
	if err != nil {
		return nil, err
	}
	var list []Found
	for _, r := range t.search().find(question) {
		found := Found{Title: r.Title, Path: r.Path}
		for _, p := range r.Heading {
			found.Heading += p.Text
		}
		list = append(list, found)
	}
	return list, nil
}
