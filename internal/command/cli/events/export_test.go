package events

// What tests look at from outside.
var (
	Receiver      = receiver
	Pace          = pace
	Fields        = fields
	Digest        = digest
	SigningSecret = signingSecret
	After         = after
	ErrTaken      = errTaken
)

// Mark is a place that is kept.
type Mark struct{ *mark }

// OpenMark opens the place of an organisation's events of some kinds.
func OpenMark(dir, org string, events ...string) (Mark, error) {
	m, err := openMark(dir, org, "default", which{events: events})
	return Mark{m}, err
}

// Cursor is the place.
func (m Mark) Cursor() string { return m.cursor }

// Save moves it on, Set anywhere, and Close gives it up.
func (m Mark) Save(cursor string) error { return m.save(cursor) }

// Set moves it anywhere.
func (m Mark) Set(cursor string) error { return m.set(cursor) }

// Close gives it up.
func (m Mark) Close() { m.close() }
