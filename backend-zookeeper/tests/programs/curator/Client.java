import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Adds 1 to the number in a file, each time under a mutex of Curator. */
public class Client {
    public static void main(String[] arguments) throws Exception {
        var file = Path.of(arguments[2]);
        try (var client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(100))) {
            client.start();
            var mutex = new InterProcessMutex(client, arguments[1]);
            for (int left = Integer.parseInt(arguments[3]); left > 0; left--) {
                mutex.acquire();
                try {
                    int before = Integer.parseInt(Files.readString(file));
                    Files.writeString(file, Integer.toString(before + 1));
                } finally {
                    mutex.release();
                }
            }
        }
    }
}
