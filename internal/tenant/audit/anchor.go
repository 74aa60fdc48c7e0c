package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/logsink"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// Anchor states that a log had this head at a time. It is kept outside the database, as a line of the log and of a file,
// which have the same members.
type Anchor struct {
	Org id.Org `json:"org_id"`
	// Seq is the number of the newest entry. Entries are numbered from 1, so it also says how many there were.
	Seq   int64  `json:"seq"`
	Hash  string `json:"hash"`
	KeyID string `json:"key_id"`
	At    string `json:"at"`
	// MAC shows that this service has written the anchor.
	MAC string `json:"mac"`
}

// Anchors are anchors by their org.
type Anchors map[id.Org][]Anchor

func encodeHash(sum []byte) string { return hex.EncodeToString(sum) }

// signAnchor returns the MAC of an anchor.
func (k *chainKey) signAnchor(a Anchor) string {
	return encodeHash(k.sum(anchorLabel, []byte(a.Org), []byte(strconv.FormatInt(a.Seq, 10)), []byte(a.Hash), []byte(a.At)))
}

// markHead returns the mark of a head that was anchored to a file. It is stored in the head itself. Only this service can
// make it, so a writer of the database cannot pretend that a head was anchored.
func (k *chainKey) markHead(h db.AuditHead, file string) []byte {
	return k.sum(markLabel, []byte(h.OrgID), []byte(strconv.FormatInt(h.Seq, 10)), h.Hash, []byte(file))
}

// anchorPage is how many heads one query reads.
const anchorPage = 1000

// anchorHeads anchors every head that has changed since it was anchored last.
func (k *Keeper) anchorHeads(ctx context.Context) error {
	key, err := k.log.chainKey(ctx)
	if err != nil {
		return err
	}
	q := db.New(k.deps.DB)
	for after := id.Org(""); ; {
		heads, err := q.Heads(ctx, db.HeadsParams{After: after, MaxRows: anchorPage})
		if err != nil {
			return err
		}
		if err := k.anchorPage(ctx, key, heads); err != nil {
			return err
		}
		if len(heads) < anchorPage {
			return nil
		}
		after = heads[len(heads)-1].OrgID
	}
}

// anchorPage writes anchors first and marks the heads then. If it fails in between, the heads are anchored again.
func (k *Keeper) anchorPage(ctx context.Context, key *chainKey, heads []db.AuditHead) error {
	now, err := k.deps.DB.Now(ctx, k.deps.DB)
	if err != nil {
		return err
	}
	var (
		lines   bytes.Buffer
		anchors []Anchor
		marks   []db.MarkAnchoredParams
	)
	encoder := json.NewEncoder(&lines)
	for _, head := range heads {
		mark := key.markHead(head, k.deps.File)
		if hmac.Equal(mark, head.Anchored) {
			continue
		}
		a := Anchor{Org: head.OrgID, Seq: head.Seq, Hash: encodeHash(head.Hash), KeyID: key.id, At: stamp.Text(now)}
		a.MAC = key.signAnchor(a)
		if err := encoder.Encode(a); err != nil {
			return fmt.Errorf("encode an anchor: %w", err)
		}
		anchors, marks = append(anchors, a), append(marks, db.MarkAnchoredParams{Anchored: mark, OrgID: head.OrgID})
	}
	if len(anchors) > 0 && k.deps.File == "" && !k.deps.Log.Enabled(ctx, slog.LevelInfo) {
		return errors.New("anchors would be written nowhere: set STAGEDOOR_AUDIT_ANCHORS, or STAGEDOOR_LOG_LEVEL to info")
	}
	if k.deps.File != "" && len(anchors) > 0 {
		if err := logsink.AppendLines(k.deps.File, lines.Bytes()); err != nil {
			return fmt.Errorf("write anchors: %w", err)
		}
	}
	for i, a := range anchors {
		k.deps.Log.LogAttrs(ctx, slog.LevelInfo, "audit head anchored", slog.String(logkey.OrgID, string(a.Org)),
			slog.Int64(logkey.Seq, a.Seq), slog.String(logkey.Hash, a.Hash), slog.String(logkey.KeyID, a.KeyID),
			slog.String(logkey.At, a.At), slog.String(logkey.MAC, a.MAC))
		if err := db.New(k.deps.DB).MarkAnchored(ctx, marks[i]); err != nil {
			return err
		}
	}
	return nil
}

// ReadAnchors adds the anchors in r, a file of anchors or a log in JSON, and calls bad with the number of every line that
// is no valid anchor of this service. It ignores the other lines of a log.
func (l *Log) ReadAnchors(ctx context.Context, r io.Reader, into Anchors, bad func(line int)) error {
	key, err := l.chainKey(ctx)
	if err != nil {
		return err
	}
	reader := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read anchors: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var a Anchor
			switch {
			case json.Unmarshal(line, &a) != nil:
				bad(number)
			case a.MAC == "": // another line of a log
			case !hmac.Equal([]byte(a.MAC), []byte(key.signAnchor(a))):
				bad(number)
			default:
				into[a.Org] = append(into[a.Org], a)
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the end of the file
		}
	}
}
