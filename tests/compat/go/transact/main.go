// Copies one topic to another with franz-go's GroupTransactSession: copies of records and the offsets after the
// originals are committed in one transaction. Runs until it is killed.
//
// Arguments: BOOTSTRAP,... GROUP TRANSACTIONAL-ID INPUT OUTPUT
// Out:       committed N    at the end of each transaction: the number of records, 0 if it was aborted
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsOfATransaction = 20

func main() {
	if err := copyAll(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func copyAll(ctx context.Context, args []string) error {
	bootstrap, group, id, input, output := args[0], args[1], args[2], args[3], args[4]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(id),
		kgo.TransactionalID(id),
		// If a member is killed during a transaction, its offsets stay undecided for this time. A transaction
		// may also be open while the group waits for a session to end.
		kgo.TransactionTimeout(12*time.Second),
		kgo.DefaultProduceTopic(output),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
	)
	if err != nil {
		return err
	}
	for {
		fetches := session.PollRecords(ctx, recordsOfATransaction)
		for _, failure := range fetches.Errors() {
			return fmt.Errorf("%s-%d: %w", failure.Topic, failure.Partition, failure.Err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		failed := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, kgo.SliceRecord(record.Value), failed.Promise())
		})
		committed, err := session.End(ctx, failed.Err() == nil)
		if err != nil {
			return err
		}
		count := 0
		if committed {
			count = fetches.NumRecords()
		}
		fmt.Println("committed", count)
	}
}
