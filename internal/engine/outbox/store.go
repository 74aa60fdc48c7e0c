package outbox

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox/internal/db"
)

func storedOf(rows []db.Outbox) []Stored {
	list := make([]Stored, len(rows))
	for i, r := range rows {
		list[i] = Stored{
			Org: r.OrgID, ID: r.ID, Seq: r.Seq, Account: id.Account(r.AccountID), Kind: r.Kind,
			OfUserID: r.OfUserID, ReferenceID: r.ReferenceID, Data: r.Data, At: r.At,
		}
	}
	return list
}

// bucketOf returns the bucket of an event's source.
func bucketOf(org id.Org, account id.Account) pgtype.Int2 {
	return pgtype.Int2{Int16: int16(id.Bucket(source(org, account))), Valid: true}
}
