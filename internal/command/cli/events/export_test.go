package events

var (
	ReceiverURL      = receiverURL
	ParseRate        = parseRate
	ParseFields      = parseFields
	Digest           = digest
	SigningSecret    = signingSecret
	DescribePosition = describePosition
	ErrTaken         = errTaken
)

type Checkpoint struct{ *checkpoint }

func OpenCheckpoint(dir, org string, events ...string) (Checkpoint, error) {
	m, err := openCheckpoint(dir, org, "default", filter{events: events})
	return Checkpoint{m}, err
}

func (m Checkpoint) Cursor() string              { return m.cursor }
func (m Checkpoint) Advance(cursor string) error { return m.advance(cursor) }
func (m Checkpoint) Set(cursor string) error     { return m.set(cursor) }
func (m Checkpoint) Close()                      { m.close() }
