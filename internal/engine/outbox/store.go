package outbox

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// bucketOf returns the bucket of an event's source.
func bucketOf(org id.Org, account id.Account) pgtype.Int2 {
	return pgtype.Int2{Int16: int16(id.Bucket(source(org, account))), Valid: true}
}
