import java.util.Scanner;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/** Acquires a lock of Curator at a line of input, releases it at the next one, and so on. */
public class Client {
    public static void main(String[] arguments) throws Exception {
        var retry = new RetryOneTime(100);
        var lines = new Scanner(System.in);
        try (var client = CuratorFrameworkFactory.newClient(arguments[0], 40_000, 20_000, retry)) {
            client.start();
            var mutex = arguments[2].equals("mutex")
                    ? new InterProcessMutex(client, arguments[1])
                    : new InterProcessReadWriteLock(client, arguments[1]).writeLock();
            while (lines.hasNextLine()) {
                lines.nextLine();
                mutex.acquire();
                System.out.println("held");
                lines.nextLine();
                mutex.release();
                System.out.println("released");
            }
        }
    }
}
